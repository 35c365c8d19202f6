import { expect, test } from "vitest";
import { byLine, lengthOf, marksOf } from "./diagnostics";

const item = (message: string, line: number | null, column: number | null = 1) => ({
  path: "nodes",
  message,
  hint: null,
  line,
  column,
});

test("marks stand in the order of the text, errors before warnings", () => {
  const marks = marksOf({ errors: [item("late", 9), item("here", 3, 5)], warnings: [item("beside", 3, 5)] });
  expect(marks.map((mark) => mark.message)).toEqual(["here", "beside", "late"]);
});

test("what has no place stands at the beginning", () => {
  expect(marksOf({ errors: [item("all of it", null, null)], warnings: [] })[0]).toMatchObject({ line: 1, column: 1 });
});

test("marks are found by their line", () => {
  const lines = byLine(marksOf({ errors: [item("a", 2), item("b", 2)], warnings: [item("c", 4)] }));
  expect([...lines].map(([line, marks]) => [line, marks.length])).toEqual([
    [2, 2],
    [4, 1],
  ]);
});

test("a mark underlines the word it begins at", () => {
  expect(lengthOf("  dependencies: [left, rigth]", 24)).toBe(5);
  expect(lengthOf('  url: "{{ nope }}"', 8)).toBe(12);
  expect(lengthOf("", 1)).toBe(1);
});
