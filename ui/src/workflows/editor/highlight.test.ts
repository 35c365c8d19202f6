import { expect, test } from "vitest";
import { highlighted, type Piece } from "./highlight";

function told(line: string): string[] {
  return words(highlighted(line)[0] ?? []);
}

function words(pieces: Piece[]): string[] {
  return pieces.filter((piece) => piece.text.trim() !== "").map((piece) => `${piece.kind} ${piece.text.trim()}`);
}

test("keys, values and comments are told apart", () => {
  expect(told("  handler: echo # says it")).toEqual(["key handler", "sign :", "plain echo", "comment # says it"]);
});

test("a sign for a comment within a word or a string is none", () => {
  expect(told('a: x#y "# no"')).not.toContainEqual(expect.stringMatching(/^comment/));
});

test("templates stand out in strings", () => {
  expect(told('url: "{{ input.url }}/users"')).toEqual([
    "key url",
    "sign :",
    'string "',
    "template {{ input.url }}",
    'string /users"',
  ]);
});

test("keys of one line are found too", () => {
  expect(told("a: {handler: echo, times: 3}").filter((word) => word.startsWith("key"))).toEqual([
    "key a",
    "key handler",
    "key times",
  ]);
});

test("keys of JSON are keys, its strings are strings", () => {
  expect(told('"id": "x", "on": true')).toEqual([
    'key "id"',
    "sign :",
    'string "x"',
    "sign ,",
    'key "on"',
    "sign :",
    "literal true",
  ]);
});

test("the lines of a block text are text, keys or not", () => {
  const lines = highlighted("code: |\n  a: 1\n\n  b: {{ x }}\nnext: 2");
  expect(words(lines[1] ?? [])).toEqual(["string a: 1"]);
  expect(words(lines[3] ?? [])).toEqual(["string b:", "template {{ x }}"]);
  expect(words(lines[4] ?? [])[0]).toBe("key next");
});

test("no character is lost", () => {
  const text = "a: \"unfinished\n\t- {b: [1, -2.5, 30s], c: 'it''s'}  # ü 😀\n{{ x";
  expect(
    highlighted(text)
      .map((line) => line.map((piece) => piece.text).join(""))
      .join("\n"),
  ).toBe(text);
});

test("lines that did not change are the same pieces again", () => {
  const known = new Map<string, Piece[]>();
  const [first] = highlighted("a: 1\nb: 2", known);
  expect(highlighted("a: 1\nb: 3", known)[0]).toBe(first);
});
