// Splits a YAML or JSON document into tokens for syntax highlighting, line by line.

export type TokenKind = "plain" | "comment" | "key" | "string" | "template" | "literal" | "punctuation";

export interface Token {
  kind: TokenKind;
  text: string;
}

const BLOCK_SCALAR = /(^|[\s:-])[|>][+-]?\d?\s*(#.*)?$/;
const TOKEN_PATTERN = new RegExp(
  [
    /(?<comment>(?:^|(?<=\s))#.*$)/,
    /(?<template>\{\{.*?\}\}|\{%.*?%\})/,
    /(?<key>"(?:[^"\\]|\\.)*"(?=\s*:)|'(?:[^']|'')*'(?=\s*:(?:\s|$))|[A-Za-z_$@][\w.$@/-]*(?=\s*:(?:\s|$)))/,
    /(?<string>"(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)/,
    /(?<literal>\b(?:true|false|null)\b|(?<![\w.-])-?\d+(?:\.\d+)?(?:ms|[smhd])?\b)/,
    /(?<punctuation>[{}[\],:]|^\s*-(?=\s))/,
    /(?<plain>[^\s#"'{}[\],:]+|\s+|.)/,
  ]
    .map((part) => part.source)
    .join("|"),
  "gu",
);

/** `cache` keeps the tokens of lines between calls, so that unchanged lines have the same tokens. */
export function tokenize(text: string, cache = new Map<string, Token[]>()): Token[][] {
  // The lines of a block scalar are indented more than its first line.
  let blockIndent: number | null = null;
  return text.split("\n").map((line) => {
    const indent = line.length - line.trimStart().length;
    const isBlockText = blockIndent !== null && (line.trim() === "" || indent > blockIndent);
    if (!isBlockText) {
      blockIndent = BLOCK_SCALAR.test(line) ? indent : null;
    }
    const key = `${isBlockText ? "|" : " "}${line}`;
    const tokens = cache.get(key) ?? (isBlockText ? splitTemplates(line, "string") : tokenizeLine(line));
    cache.set(key, tokens);
    return tokens;
  });
}

function tokenizeLine(line: string): Token[] {
  const tokens: Token[] = [];
  for (const match of line.matchAll(TOKEN_PATTERN)) {
    const kind = (Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined)?.[0] ??
      "plain") as TokenKind;
    const last = tokens.at(-1);
    if (kind === "string") {
      tokens.push(...splitTemplates(match[0], "string"));
    } else if (last && last.kind === kind) {
      last.text += match[0];
    } else {
      tokens.push({ kind, text: match[0] });
    }
  }
  return tokens;
}

function splitTemplates(text: string, kind: TokenKind): Token[] {
  return text
    .split(/(\{\{.*?\}\}|\{%.*?%\})/)
    .map((part, index): Token => ({ kind: index % 2 === 1 ? "template" : kind, text: part }))
    .filter((token) => token.text !== "");
}
