// Parses ANSI colors (SGR sequences) in log lines into styled spans of text, never into markup.

export interface AnsiStyle {
  /** A class for the sixteen named colors, which work in both themes. */
  className: string;
  /** Any other color, mixed with the theme so that it stays readable. */
  color?: string;
  background?: string;
}

export interface AnsiSpan {
  text: string;
  style: AnsiStyle | null;
}

interface SgrState {
  foreground: string | null;
  background: string | null;
  flags: Set<Flag>;
}

type Flag = "bold" | "dim" | "italic" | "underline" | "strike" | "inverse";

// black, red, green, yellow, blue, magenta, cyan, white: as theme colors, which have enough contrast.
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

// Escape sequences: CSI, OSC, and two-character ones.
const SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are made of control characters
  /\x1b\[([0-9;:]*)([@-~])|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are removed
const CONTROL_CHARACTERS = /[\x00-\x08\x0b-\x1f\x7f]/g;

/** Split a line into spans of one style each; null is the default style. Other escape sequences are removed. */
export function ansiSpans(text: string): AnsiSpan[] {
  const line = unescapeSequences(text);
  if (!line.includes("\x1b")) {
    return [{ text: line.replace(CONTROL_CHARACTERS, ""), style: null }];
  }
  const state: SgrState = { foreground: null, background: null, flags: new Set() };
  const spans: AnsiSpan[] = [];
  let from = 0;
  const add = (until: number) => {
    const text = line.slice(from, until).replace(CONTROL_CHARACTERS, "");
    if (text) {
      spans.push({ text, style: toStyle(state) });
    }
  };
  for (const match of line.matchAll(SEQUENCE)) {
    add(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") {
      applyCodes(state, parseCodes(match[1] ?? ""));
    }
  }
  add(line.length);
  return spans;
}

// Workers escape control characters as \\x1b, so that log lines cannot control a terminal.
function unescapeSequences(line: string): string {
  return line.includes("\\x1b")
    ? line.replaceAll(/\\x(1b|07)/g, (_, code: string) => (code === "1b" ? "\x1b" : "\x07"))
    : line;
}

/** The text of a line without escape sequences. */
export function plainText(line: string): string {
  return ansiSpans(line)
    .map((span) => span.text)
    .join("");
}

function parseCodes(text: string): number[] {
  return text.split(/[;:]/).map((code) => Number(code || "0"));
}

function applyCodes(state: SgrState, codes: number[]): void {
  for (let index = 0; index < codes.length; index++) {
    const code = codes[index] ?? 0;
    const on = ON[code];
    if (code === 0) {
      state.foreground = state.background = null;
      state.flags.clear();
    } else if (on) {
      state.flags.add(on);
    } else if (OFF[code]) {
      for (const flag of OFF[code]) {
        state.flags.delete(flag);
      }
    } else if (code === 38 || code === 48) {
      const [color, length] = extendedColor(codes.slice(index + 1));
      index += length;
      if (code === 38) {
        state.foreground = color;
      } else {
        state.background = color;
      }
    } else {
      applyNamedColor(state, code);
    }
  }
}

function applyNamedColor(state: SgrState, code: number): void {
  const name = NAMED[code % 10] ?? null;
  if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) {
    state.foreground = name;
  } else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) {
    state.background = name;
  } else if (code === 39) {
    state.foreground = null;
  } else if (code === 49) {
    state.background = null;
  }
}

/** Return a 256-color or true color, and the number of codes it takes. */
function extendedColor(codes: number[]): [string | null, number] {
  if (codes[0] === 5 && codes.length >= 2) {
    return [indexedColor(codes[1] ?? 0), 2];
  }
  if (codes[0] === 2 && codes.length >= 4) {
    return [rgb(codes[1] ?? 0, codes[2] ?? 0, codes[3] ?? 0), 4];
  }
  return [null, codes.length];
}

function indexedColor(number: number): string | null {
  if (number < 16) {
    return NAMED[number % 8] ?? null;
  }
  if (number < 232) {
    const index = number - 16;
    return rgb(CUBE[Math.floor(index / 36)] ?? 0, CUBE[Math.floor(index / 6) % 6] ?? 0, CUBE[index % 6] ?? 0);
  }
  const gray = 8 + (number - 232) * 10;
  return number < 256 ? rgb(gray, gray, gray) : null;
}

function rgb(...channels: number[]): string {
  return `rgb(${channels.map((channel) => Math.min(255, channel)).join(" ")})`;
}

function toStyle(state: SgrState): AnsiStyle | null {
  if (state.foreground === null && state.background === null && state.flags.size === 0) {
    return null;
  }
  const named = TEXT_CLASSES[state.foreground as keyof typeof TEXT_CLASSES];
  const classes = [...state.flags].map((flag) => FLAG_CLASSES[flag]);
  const style: AnsiStyle = { className: [named, ...classes].filter(Boolean).join(" ") };
  if (state.foreground !== null && !named) {
    style.color = `color-mix(in srgb, ${state.foreground} 55%, var(--ink))`;
  }
  if (state.background !== null) {
    const color = state.background in TEXT_CLASSES ? `var(--${state.background})` : state.background;
    style.background = `color-mix(in srgb, ${color} 18%, var(--surface))`;
  }
  return style;
}
