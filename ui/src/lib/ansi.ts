// Reads the colours that programs write into their lines (ANSI SGR). Gives pieces of text, never markup.

export interface AnsiStyle {
  /** A class for the sixteen named colours, which both themes can show. */
  className: string;
  /** Any other colour, mixed with the page's own so that it stays readable in both themes. */
  color?: string;
  background?: string;
}

export interface AnsiPiece {
  text: string;
  style: AnsiStyle | null;
}

interface Pen {
  fore: string | null;
  back: string | null;
  flags: Set<Flag>;
}

type Flag = "bold" | "dim" | "italic" | "underline" | "strike" | "inverse";

// black, red, green, yellow, blue, magenta, cyan, white: the tones of the page have the contrast that is needed.
const NAMED = ["muted", "failed", "completed", "waiting", "running", "cancelled", "ready", "ink"] as const;
const TEXT_CLASSES = {
  muted: "text-muted",
  failed: "text-failed",
  completed: "text-completed",
  waiting: "text-waiting",
  running: "text-running",
  cancelled: "text-cancelled",
  ready: "text-ready",
  ink: "text-ink",
} as const;
const FLAG_CLASSES: Record<Flag, string> = {
  bold: "font-bold",
  dim: "text-muted",
  italic: "italic",
  underline: "underline",
  strike: "line-through",
  inverse: "rounded-xs bg-sunken",
};
const ON: Record<number, Flag> = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const OFF: Record<number, Flag[]> = {
  22: ["bold", "dim"],
  23: ["italic"],
  24: ["underline"],
  27: ["inverse"],
  29: ["strike"],
};
const CUBE = [0, 95, 135, 175, 215, 255];

// Escape sequences: those of a form (CSI), those with a text (OSC), and two-character ones.
const SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are made of control characters
  /\x1b\[([0-9;:]*)([@-~])|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: what would move a cursor is not shown
const UNSHOWN = /[\x00-\x08\x0b-\x1f\x7f]/g;

/** A line as pieces, each in one style; null is the plain one. What is no colour is left out. */
export function ansiPieces(written: string): AnsiPiece[] {
  const line = unescaped(written);
  if (!line.includes("\x1b")) {
    return [{ text: line.replace(UNSHOWN, ""), style: null }];
  }
  const pen: Pen = { fore: null, back: null, flags: new Set() };
  const pieces: AnsiPiece[] = [];
  let from = 0;
  const add = (until: number) => {
    const text = line.slice(from, until).replace(UNSHOWN, "");
    if (text) {
      pieces.push({ text, style: styleOf(pen) });
    }
  };
  for (const found of line.matchAll(SEQUENCE)) {
    add(found.index);
    from = found.index + found[0].length;
    if (found[2] === "m") {
      draw(pen, codesOf(found[1] ?? ""));
    }
  }
  add(line.length);
  return pieces;
}

// Workers write control characters as \\x1b, so that no line can play tricks on a terminal.
function unescaped(line: string): string {
  return line.includes("\\x1b")
    ? line.replaceAll(/\\x(1b|07)/g, (_, code: string) => (code === "1b" ? "\x1b" : "\x07"))
    : line;
}

/** The words of a line without its colours. */
export function plainText(line: string): string {
  return ansiPieces(line)
    .map((piece) => piece.text)
    .join("");
}

function codesOf(written: string): number[] {
  return written.split(/[;:]/).map((code) => Number(code || "0"));
}

function draw(pen: Pen, codes: number[]): void {
  for (let place = 0; place < codes.length; place++) {
    const code = codes[place] ?? 0;
    const on = ON[code];
    if (code === 0) {
      pen.fore = pen.back = null;
      pen.flags.clear();
    } else if (on) {
      pen.flags.add(on);
    } else if (OFF[code]) {
      for (const flag of OFF[code]) {
        pen.flags.delete(flag);
      }
    } else if (code === 38 || code === 48) {
      const [colour, length] = extended(codes.slice(place + 1));
      place += length;
      if (code === 38) {
        pen.fore = colour;
      } else {
        pen.back = colour;
      }
    } else {
      drawNamed(pen, code);
    }
  }
}

function drawNamed(pen: Pen, code: number): void {
  const name = NAMED[code % 10] ?? null;
  if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) {
    pen.fore = name;
  } else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) {
    pen.back = name;
  } else if (code === 39) {
    pen.fore = null;
  } else if (code === 49) {
    pen.back = null;
  }
}

/** A colour of the 256, or a true one, and how many codes told it. */
function extended(codes: number[]): [string | null, number] {
  if (codes[0] === 5 && codes.length >= 2) {
    return [indexed(codes[1] ?? 0), 2];
  }
  if (codes[0] === 2 && codes.length >= 4) {
    return [rgb(codes[1] ?? 0, codes[2] ?? 0, codes[3] ?? 0), 4];
  }
  return [null, codes.length];
}

function indexed(number: number): string | null {
  if (number < 16) {
    return NAMED[number % 8] ?? null;
  }
  if (number < 232) {
    const place = number - 16;
    return rgb(CUBE[Math.floor(place / 36)] ?? 0, CUBE[Math.floor(place / 6) % 6] ?? 0, CUBE[place % 6] ?? 0);
  }
  const grey = 8 + (number - 232) * 10;
  return number < 256 ? rgb(grey, grey, grey) : null;
}

function rgb(...parts: number[]): string {
  return `rgb(${parts.map((part) => Math.min(255, part)).join(" ")})`;
}

function styleOf(pen: Pen): AnsiStyle | null {
  if (pen.fore === null && pen.back === null && pen.flags.size === 0) {
    return null;
  }
  const named = TEXT_CLASSES[pen.fore as keyof typeof TEXT_CLASSES];
  const classes = [...pen.flags].map((flag) => FLAG_CLASSES[flag]);
  const style: AnsiStyle = { className: [named, ...classes].filter(Boolean).join(" ") };
  if (pen.fore !== null && !named) {
    style.color = `color-mix(in srgb, ${pen.fore} 55%, var(--ink))`;
  }
  if (pen.back !== null) {
    const colour = pen.back in TEXT_CLASSES ? `var(--${pen.back})` : pen.back;
    style.background = `color-mix(in srgb, ${colour} 18%, var(--surface))`;
  }
  return style;
}
