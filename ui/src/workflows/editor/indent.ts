// Edits of the Tab, Shift+Tab and Enter keys.

export interface TextEdit {
  /** The range to replace. */
  from: number;
  to: number;
  insert: string;
  /** The selection after the edit. */
  start: number;
  end: number;
}

const INDENT = "  ";

/** Tab: insert spaces up to the next stop, or indent the selected lines. */
export function indent(text: string, start: number, end: number): TextEdit {
  if (!text.slice(start, end).includes("\n")) {
    const column = start - lineStart(text, start);
    const insert = " ".repeat(INDENT.length - (column % INDENT.length));
    return { from: start, to: end, insert, start: start + insert.length, end: start + insert.length };
  }
  return editLines(text, start, end, (line) => (line === "" ? line : INDENT + line));
}

/** Shift+Tab: outdent the selected lines. */
export function outdent(text: string, start: number, end: number): TextEdit {
  return editLines(text, start, end, (line) => line.replace(/^ {1,2}|^\t/, ""));
}

/** Enter: keep the indentation, or increase it after a line that opens a block. */
export function newLine(text: string, start: number, end: number): TextEdit {
  const line = text.slice(lineStart(text, start), start);
  const indentation = /^\s*/.exec(line)?.[0] ?? "";
  const insert = `\n${indentation}${/(:|[|>][+-]?)$/.test(line.trimEnd()) ? INDENT : ""}`;
  return { from: start, to: end, insert, start: start + insert.length, end: start + insert.length };
}

/** The offset of a line and column, both from 1. */
export function offsetOf(text: string, line: number, column: number): number {
  let from = 0;
  for (let number = 1; number < line; number++) {
    const next = text.indexOf("\n", from);
    if (next < 0) {
      return text.length;
    }
    from = next + 1;
  }
  const until = text.indexOf("\n", from);
  return Math.min(from + column - 1, until < 0 ? text.length : until);
}

function editLines(text: string, start: number, end: number, change: (line: string) => string): TextEdit {
  const from = lineStart(text, start);
  // A selection that ends at the start of a line does not include that line.
  const last = end > start && text[end - 1] === "\n" ? end - 1 : end;
  const next = text.indexOf("\n", last);
  const to = next < 0 ? text.length : next;
  const before = text.slice(from, to).split("\n");
  const after = before.map(change);
  const insert = after.join("\n");
  const firstLineShift = (after[0] ?? "").length - (before[0] ?? "").length;
  return {
    from,
    to,
    insert,
    start: Math.max(from, start + firstLineShift),
    end: Math.max(from, end + insert.length - (to - from)),
  };
}

function lineStart(text: string, offset: number): number {
  return text.lastIndexOf("\n", offset - 1) + 1;
}
