// The difference between two texts by lines: Myers' shortest edit, then folded or laid side by side.

export interface Line {
  kind: "same" | "removed" | "added";
  /** Its number on either side, from 1; null where the side does not have it. */
  left: number | null;
  right: number | null;
  text: string;
}

export interface Block {
  /** Folded blocks hold unchanged lines that are far from any change. */
  folded: boolean;
  lines: Line[];
}

export interface Pair {
  left: Line | null;
  right: Line | null;
}

/** Texts that differ in more lines than this are told as one removed and one added. */
const EDITS_MAX = 1_500;
const CONTEXT = 3;

export function diffLines(before: string, after: string): Line[] {
  const left = linesOf(before);
  const right = linesOf(after);
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
  const made = new Lines(left, right);
  made.same(head);
  for (const edit of edits(left.slice(head, left.length - tail), right.slice(head, right.length - tail))) {
    made[edit](1);
  }
  made.same(tail);
  return made.lines;
}

/** Unchanged stretches folded away, but for a few lines around every change. */
export function folded(lines: Line[], context = CONTEXT): Block[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, place) => {
    if (line.kind !== "same") {
      near.fill(1, Math.max(0, place - context), place + context + 1);
    }
  });
  const blocks: Block[] = [];
  lines.forEach((line, place) => {
    const isFolded = near[place] === 0;
    const last = blocks.at(-1);
    if (last && last.folded === isFolded) {
      last.lines.push(line);
    } else {
      blocks.push({ folded: isFolded, lines: [line] });
    }
  });
  return blocks;
}

/** Lines beside each other: what was removed stands opposite what was added in its place. */
export function sideBySide(lines: Line[]): Pair[] {
  const pairs: Pair[] = [];
  let removed: Line[] = [];
  let added: Line[] = [];
  const settle = () => {
    for (let place = 0; place < Math.max(removed.length, added.length); place++) {
      pairs.push({ left: removed[place] ?? null, right: added[place] ?? null });
    }
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.kind === "same") {
      settle();
      pairs.push({ left: line, right: line });
    } else {
      (line.kind === "removed" ? removed : added).push(line);
    }
  }
  settle();
  return pairs;
}

export function changeCounts(lines: Line[]): { added: number; removed: number } {
  return {
    added: lines.filter((line) => line.kind === "added").length,
    removed: lines.filter((line) => line.kind === "removed").length,
  };
}

type Edit = "same" | "removed" | "added";

class Lines {
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
    for (let done = 0; done < count; done++) {
      const text = this.left[this.leftAt] ?? "";
      this.lines.push({ kind: "same", left: ++this.leftAt, right: ++this.rightAt, text });
    }
  }

  removed(count: number): void {
    for (let done = 0; done < count; done++) {
      const text = this.left[this.leftAt] ?? "";
      this.lines.push({ kind: "removed", left: ++this.leftAt, right: null, text });
    }
  }

  added(count: number): void {
    for (let done = 0; done < count; done++) {
      const text = this.right[this.rightAt] ?? "";
      this.lines.push({ kind: "added", left: null, right: ++this.rightAt, text });
    }
  }
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") {
    lines.pop();
  }
  return lines;
}

/** The shortest way from one list to the other; the whole of both when that is longer than the bound. */
function edits(left: string[], right: string[]): Edit[] {
  const trace = furthest(left, right);
  if (trace === null) {
    return [...left.map((): Edit => "removed"), ...right.map((): Edit => "added")];
  }
  const way: Edit[] = [];
  let x = left.length;
  let y = right.length;
  for (let depth = trace.length - 1; depth >= 0; depth--) {
    const reached = trace[depth] as Int32Array;
    const diagonal = x - y;
    const down = comesDown(reached, diagonal, depth);
    const before = diagonal + (down ? 1 : -1);
    const fromX = depth === 0 ? 0 : (reached[before + depth] ?? 0);
    const fromY = depth === 0 ? 0 : fromX - before;
    while (x > fromX && y > fromY) {
      way.push("same");
      x--;
      y--;
    }
    if (depth > 0) {
      way.push(down ? "added" : "removed");
    }
    x = fromX;
    y = fromY;
  }
  return way.reverse();
}

/** How far every diagonal was reached before each number of edits; null beyond the bound. */
function furthest(left: string[], right: string[]): Int32Array[] | null {
  const bound = Math.min(left.length + right.length, EDITS_MAX);
  const trace: Int32Array[] = [];
  let reached = new Int32Array(1);
  for (let depth = 0; depth <= bound; depth++) {
    trace.push(reached);
    const next = new Int32Array(2 * depth + 3);
    for (let diagonal = -depth; diagonal <= depth; diagonal += 2) {
      const down = comesDown(reached, diagonal, depth);
      let x = depth === 0 ? 0 : (reached[diagonal + (down ? 1 : -1) + depth] ?? 0) + (down ? 0 : 1);
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

/** Whether the furthest way to a diagonal adds a line of the right side; `reached` is centred on `depth`. */
function comesDown(reached: Int32Array, diagonal: number, depth: number): boolean {
  if (diagonal === -depth) {
    return true;
  }
  return diagonal !== depth && (reached[diagonal - 1 + depth] ?? 0) < (reached[diagonal + 1 + depth] ?? 0);
}
