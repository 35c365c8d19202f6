// Where a document's problems are: by line, the graver first.

import type { ProblemItem } from "../../api/client";
import type { Validation } from "../../api/types";

export interface Mark {
  line: number;
  column: number;
  grave: boolean;
  path: string;
  message: string;
  hint: string | null;
}

export function marksOf(validation: Pick<Validation, "errors" | "warnings">): Mark[] {
  const marks = [
    ...(validation.errors ?? []).map((item) => mark(item, true)),
    ...(validation.warnings ?? []).map((item) => mark(item, false)),
  ];
  return marks.sort((a, b) => a.line - b.line || a.column - b.column || Number(b.grave) - Number(a.grave));
}

/** How many characters a mark underlines: the word that it begins at. */
export function lengthOf(line: string, column: number): number {
  const rest = line.slice(column - 1);
  return (/^(?:[\w./-]+|"[^"]*"|'[^']*'|\S)/.exec(rest)?.[0] ?? " ").length;
}

export function byLine(marks: readonly Mark[]): Map<number, Mark[]> {
  const lines = new Map<number, Mark[]>();
  for (const one of marks) {
    lines.set(one.line, [...(lines.get(one.line) ?? []), one]);
  }
  return lines;
}

function mark(item: ProblemItem, grave: boolean): Mark {
  return {
    // What is wrong with the whole stands at its beginning.
    line: item.line ?? 1,
    column: item.column ?? 1,
    grave,
    path: item.path,
    message: item.message,
    hint: item.hint ?? null,
  };
}
