// Errors and warnings of a document, sorted by position.

import type { ErrorDetail } from "../../api/client";
import type { Validation } from "../../api/types";

export interface Diagnostic {
  line: number;
  column: number;
  isError: boolean;
  path: string;
  message: string;
  hint: string | null;
}

export function toDiagnostics(validation: Pick<Validation, "errors" | "warnings">): Diagnostic[] {
  const diagnostics = [
    ...(validation.errors ?? []).map((item) => createDiagnostic(item, true)),
    ...(validation.warnings ?? []).map((item) => createDiagnostic(item, false)),
  ];
  return diagnostics.sort((a, b) => a.line - b.line || a.column - b.column || Number(b.isError) - Number(a.isError));
}

/** The number of characters to underline: the word at the column. */
export function underlineLength(line: string, column: number): number {
  const rest = line.slice(column - 1);
  return (/^(?:[\w./-]+|"[^"]*"|'[^']*'|\S)/.exec(rest)?.[0] ?? " ").length;
}

export function groupByLine(diagnostics: readonly Diagnostic[]): Map<number, Diagnostic[]> {
  const lines = new Map<number, Diagnostic[]>();
  for (const diagnostic of diagnostics) {
    lines.set(diagnostic.line, [...(lines.get(diagnostic.line) ?? []), diagnostic]);
  }
  return lines;
}

function createDiagnostic(item: ErrorDetail, isError: boolean): Diagnostic {
  return {
    // Errors without a position are shown at the start.
    line: item.line ?? 1,
    column: item.column ?? 1,
    isError,
    path: item.path,
    message: item.message,
    hint: item.hint ?? null,
  };
}
