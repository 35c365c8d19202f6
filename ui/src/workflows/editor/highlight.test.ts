import { expect, test } from "vitest";
import { type Token, tokenize } from "./highlight";

function describeLine(line: string): string[] {
  return describeTokens(tokenize(line)[0] ?? []);
}

function describeTokens(tokens: Token[]): string[] {
  return tokens.filter((token) => token.text.trim() !== "").map((token) => `${token.kind} ${token.text.trim()}`);
}

test("keys, values and comments have different kinds", () => {
  expect(describeLine("  handler: echo # comment")).toEqual([
    "key handler",
    "punctuation :",
    "plain echo",
    "comment # comment",
  ]);
});

test("a # within a word or string is not a comment", () => {
  expect(describeLine('a: x#y "# no"')).not.toContainEqual(expect.stringMatching(/^comment/));
});

test("templates in strings are tokens", () => {
  expect(describeLine('url: "{{ input.url }}/users"')).toEqual([
    "key url",
    "punctuation :",
    'string "',
    "template {{ input.url }}",
    'string /users"',
  ]);
});

test("keys of flow mappings are keys", () => {
  expect(describeLine("a: {handler: echo, times: 3}").filter((word) => word.startsWith("key"))).toEqual([
    "key a",
    "key handler",
    "key times",
  ]);
});

test("JSON keys and strings are distinguished", () => {
  expect(describeLine('"id": "x", "on": true')).toEqual([
    'key "id"',
    "punctuation :",
    'string "x"',
    "punctuation ,",
    'key "on"',
    "punctuation :",
    "literal true",
  ]);
});

test("the lines of a block scalar are strings", () => {
  const lines = tokenize("code: |\n  a: 1\n\n  b: {{ x }}\nnext: 2");
  expect(describeTokens(lines[1] ?? [])).toEqual(["string a: 1"]);
  expect(describeTokens(lines[3] ?? [])).toEqual(["string b:", "template {{ x }}"]);
  expect(describeTokens(lines[4] ?? [])[0]).toBe("key next");
});

test("all characters are kept", () => {
  const text = "a: \"unfinished\n\t- {b: [1, -2.5, 30s], c: 'it''s'}  # ü 😀\n{{ x";
  expect(
    tokenize(text)
      .map((line) => line.map((token) => token.text).join(""))
      .join("\n"),
  ).toBe(text);
});

test("unchanged lines have the same tokens", () => {
  const cache = new Map<string, Token[]>();
  const [first] = tokenize("a: 1\nb: 2", cache);
  expect(tokenize("a: 1\nb: 3", cache)[0]).toBe(first);
});
