// What Tab, Shift+Tab and Enter do to the text of the editor.

export interface TextEdit {
  /** This stretch is replaced, */
  from: number;
  to: number;
  /** by this, */
  insert: string;
  /** and then this is selected. */
  start: number;
  end: number;
}

const STEP = "  ";

/** Tab: spaces up to the next stop, or every selected line one step further. */
export function indent(text: string, start: number, end: number): TextEdit {
  if (!text.slice(start, end).includes("\n")) {
    const column = start - lineStart(text, start);
    const insert = " ".repeat(STEP.length - (column % STEP.length));
    return { from: start, to: end, insert, start: start + insert.length, end: start + insert.length };
  }
  return lines(text, start, end, (line) => (line === "" ? line : STEP + line));
}

/** Shift+Tab: every line one step back. */
export function outdent(text: string, start: number, end: number): TextEdit {
  return lines(text, start, end, (line) => line.replace(/^ {1,2}|^\t/, ""));
}

/** Enter: as deep as this line, one step deeper where it opens something. */
export function newLine(text: string, start: number, end: number): TextEdit {
  const line = text.slice(lineStart(text, start), start);
  const depth = /^\s*/.exec(line)?.[0] ?? "";
  const insert = `\n${depth}${/(:|[|>][+-]?)$/.test(line.trimEnd()) ? STEP : ""}`;
  return { from: start, to: end, insert, start: start + insert.length, end: start + insert.length };
}

/** Where a line and a column (both from 1) are in a text. */
export function placeOf(text: string, line: number, column: number): number {
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

function lines(text: string, start: number, end: number, change: (line: string) => string): TextEdit {
  const from = lineStart(text, start);
  // A selection that ends before the first character of a line does not mean that line.
  const last = end > start && text[end - 1] === "\n" ? end - 1 : end;
  const next = text.indexOf("\n", last);
  const to = next < 0 ? text.length : next;
  const before = text.slice(from, to).split("\n");
  const after = before.map(change);
  const insert = after.join("\n");
  const first = (after[0] ?? "").length - (before[0] ?? "").length;
  return {
    from,
    to,
    insert,
    start: Math.max(from, start + first),
    end: Math.max(from, end + insert.length - (to - from)),
  };
}

function lineStart(text: string, place: number): number {
  return text.lastIndexOf("\n", place - 1) + 1;
}
