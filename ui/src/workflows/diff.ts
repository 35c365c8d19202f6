// Line diff of two texts (Myers' algorithm), with collapsed blocks and a side-by-side view.

export interface Line {
  kind: "same" | "removed" | "added";
  /** Line numbers from 1; null if the side does not have the line. */
  left: number | null;
  right: number | null;
  text: string;
}

export interface Block {
  /** Collapsed blocks hold unchanged lines away from changes. */
  isCollapsed: boolean;
  lines: Line[];
}

export interface Pair {
  left: Line | null;
  right: Line | null;
}

/** Texts with more differences are shown as completely replaced. */
const EDITS_MAX = 1_500;
const CONTEXT_LINES = 3;

export function diffLines(before: string, after: string): Line[] {
  const left = splitLines(before);
  const right = splitLines(after);
  let head = 0;
  while (head < left.length && head < right.length && left[head] === right[head]) {
    head++;
  }
  let tail = 0;
  while (
    tail < left.length - head &&
    tail < right.length - head &&
    left[left.length - 1 - tail] === right[right.length - 1 - tail]
  ) {
    tail++;
  }
  const builder = new DiffBuilder(left, right);
  builder.same(head);
  for (const edit of shortestEdits(left.slice(head, left.length - tail), right.slice(head, right.length - tail))) {
    builder[edit](1);
  }
  builder.same(tail);
  return builder.lines;
}

/** Group lines into blocks and collapse unchanged lines, except for some context around changes. */
export function toBlocks(lines: Line[], context = CONTEXT_LINES): Block[] {
  const isNearChange = new Uint8Array(lines.length);
  lines.forEach((line, index) => {
    if (line.kind !== "same") {
      isNearChange.fill(1, Math.max(0, index - context), index + context + 1);
    }
  });
  const blocks: Block[] = [];
  lines.forEach((line, index) => {
    const isCollapsed = isNearChange[index] === 0;
    const last = blocks.at(-1);
    if (last && last.isCollapsed === isCollapsed) {
      last.lines.push(line);
    } else {
      blocks.push({ isCollapsed, lines: [line] });
    }
  });
  return blocks;
}

/** Pair removed lines with the added lines that replace them. */
export function sideBySide(lines: Line[]): Pair[] {
  const pairs: Pair[] = [];
  let removed: Line[] = [];
  let added: Line[] = [];
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index++) {
      pairs.push({ left: removed[index] ?? null, right: added[index] ?? null });
    }
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.kind === "same") {
      flush();
      pairs.push({ left: line, right: line });
    } else {
      (line.kind === "removed" ? removed : added).push(line);
    }
  }
  flush();
  return pairs;
}

export function countChanges(lines: Line[]): { added: number; removed: number } {
  return {
    added: lines.filter((line) => line.kind === "added").length,
    removed: lines.filter((line) => line.kind === "removed").length,
  };
}

type Edit = "same" | "removed" | "added";

class DiffBuilder {
  readonly lines: Line[] = [];
  private leftAt = 0;
  private rightAt = 0;
  private readonly left: string[];
  private readonly right: string[];

  constructor(left: string[], right: string[]) {
    this.left = left;
    this.right = right;
  }

  same(count: number): void {
    for (let line = 0; line < count; line++) {
      const text = this.left[this.leftAt] ?? "";
      this.lines.push({ kind: "same", left: ++this.leftAt, right: ++this.rightAt, text });
    }
  }

  removed(count: number): void {
    for (let line = 0; line < count; line++) {
      const text = this.left[this.leftAt] ?? "";
      this.lines.push({ kind: "removed", left: ++this.leftAt, right: null, text });
    }
  }

  added(count: number): void {
    for (let line = 0; line < count; line++) {
      const text = this.right[this.rightAt] ?? "";
      this.lines.push({ kind: "added", left: null, right: ++this.rightAt, text });
    }
  }
}

function splitLines(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") {
    lines.pop();
  }
  return lines;
}

/** The shortest edit script; replaces everything if it exceeds the limit. */
function shortestEdits(left: string[], right: string[]): Edit[] {
  const trace = traceFurthest(left, right);
  if (trace === null) {
    return [...left.map((): Edit => "removed"), ...right.map((): Edit => "added")];
  }
  const edits: Edit[] = [];
  let x = left.length;
  let y = right.length;
  for (let depth = trace.length - 1; depth >= 0; depth--) {
    const reached = trace[depth] as Int32Array;
    const diagonal = x - y;
    const isAdded = isAddition(reached, diagonal, depth);
    const before = diagonal + (isAdded ? 1 : -1);
    const fromX = depth === 0 ? 0 : (reached[before + depth] ?? 0);
    const fromY = depth === 0 ? 0 : fromX - before;
    while (x > fromX && y > fromY) {
      edits.push("same");
      x--;
      y--;
    }
    if (depth > 0) {
      edits.push(isAdded ? "added" : "removed");
    }
    x = fromX;
    y = fromY;
  }
  return edits.reverse();
}

/** The furthest points of every diagonal for each number of edits; null beyond the limit. */
function traceFurthest(left: string[], right: string[]): Int32Array[] | null {
  const limit = Math.min(left.length + right.length, EDITS_MAX);
  const trace: Int32Array[] = [];
  let reached = new Int32Array(1);
  for (let depth = 0; depth <= limit; depth++) {
    trace.push(reached);
    const next = new Int32Array(2 * depth + 3);
    for (let diagonal = -depth; diagonal <= depth; diagonal += 2) {
      const isAdded = isAddition(reached, diagonal, depth);
      let x = depth === 0 ? 0 : (reached[diagonal + (isAdded ? 1 : -1) + depth] ?? 0) + (isAdded ? 0 : 1);
      while (x < left.length && x - diagonal < right.length && left[x] === right[x - diagonal]) {
        x++;
      }
      next[diagonal + depth + 1] = x;
      if (x >= left.length && x - diagonal >= right.length) {
        return trace;
      }
    }
    reached = next;
  }
  return null;
}

/** Whether the furthest path to a diagonal adds a line. `reached` is centered on `depth`. */
function isAddition(reached: Int32Array, diagonal: number, depth: number): boolean {
  if (diagonal === -depth) {
    return true;
  }
  return diagonal !== depth && (reached[diagonal - 1 + depth] ?? 0) < (reached[diagonal + 1 + depth] ?? 0);
}
