// The words of a YAML or JSON document by what they are, line by line, to be shown in colours.

export type Word = "plain" | "comment" | "key" | "string" | "template" | "literal" | "sign";

export interface Piece {
  kind: Word;
  text: string;
}

const BLOCK = /(^|[\s:-])[|>][+-]?\d?\s*(#.*)?$/;
const TOKEN = new RegExp(
  [
    /(?<comment>(?:^|(?<=\s))#.*$)/,
    /(?<template>\{\{.*?\}\}|\{%.*?%\})/,
    /(?<key>"(?:[^"\\]|\\.)*"(?=\s*:)|'(?:[^']|'')*'(?=\s*:(?:\s|$))|[A-Za-z_$@][\w.$@/-]*(?=\s*:(?:\s|$)))/,
    /(?<string>"(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)/,
    /(?<literal>\b(?:true|false|null)\b|(?<![\w.-])-?\d+(?:\.\d+)?(?:ms|[smhd])?\b)/,
    /(?<sign>[{}[\],:]|^\s*-(?=\s))/,
    /(?<plain>[^\s#"'{}[\],:]+|\s+|.)/,
  ]
    .map((part) => part.source)
    .join("|"),
  "gu",
);

/** `known` keeps lines from one call to the next: those that did not change are the same pieces again. */
export function highlighted(text: string, known = new Map<string, Piece[]>()): Piece[][] {
  // The lines of a block text are those deeper than the line that began it.
  let blockIndent: number | null = null;
  return text.split("\n").map((line) => {
    const indent = line.length - line.trimStart().length;
    const isText = blockIndent !== null && (line.trim() === "" || indent > blockIndent);
    if (!isText) {
      blockIndent = BLOCK.test(line) ? indent : null;
    }
    const key = `${isText ? "|" : " "}${line}`;
    const pieces = known.get(key) ?? (isText ? withTemplates(line, "string") : lineOf(line));
    known.set(key, pieces);
    return pieces;
  });
}

function lineOf(line: string): Piece[] {
  const pieces: Piece[] = [];
  for (const match of line.matchAll(TOKEN)) {
    const kind = (Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined)?.[0] ?? "plain") as Word;
    const last = pieces.at(-1);
    if (kind === "string") {
      pieces.push(...withTemplates(match[0], "string"));
    } else if (last && last.kind === kind) {
      last.text += match[0];
    } else {
      pieces.push({ kind, text: match[0] });
    }
  }
  return pieces;
}

function withTemplates(text: string, otherwise: Word): Piece[] {
  return text
    .split(/(\{\{.*?\}\}|\{%.*?%\})/)
    .map((part, place): Piece => ({ kind: place % 2 === 1 ? "template" : otherwise, text: part }))
    .filter((piece) => piece.text !== "");
}
