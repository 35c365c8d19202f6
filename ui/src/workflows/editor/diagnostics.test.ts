import { expect, test } from "vitest";
import { groupByLine, toDiagnostics, underlineLength } from "./diagnostics";

const item = (message: string, line: number | null, column: number | null = 1) => ({
  path: "nodes",
  message,
  hint: null,
  line,
  column,
});

test("diagnostics are sorted by position, errors before warnings", () => {
  const diagnostics = toDiagnostics({
    errors: [item("late", 9), item("here", 3, 5)],
    warnings: [item("beside", 3, 5)],
  });
  expect(diagnostics.map((diagnostic) => diagnostic.message)).toEqual(["here", "beside", "late"]);
});

test("a diagnostic without a position is at the start", () => {
  expect(toDiagnostics({ errors: [item("whole document", null, null)], warnings: [] })[0]).toMatchObject({
    line: 1,
    column: 1,
  });
});

test("diagnostics are grouped by line", () => {
  const lines = groupByLine(toDiagnostics({ errors: [item("a", 2), item("b", 2)], warnings: [item("c", 4)] }));
  expect([...lines].map(([line, diagnostics]) => [line, diagnostics.length])).toEqual([
    [2, 2],
    [4, 1],
  ]);
});

test("the word at the column is underlined", () => {
  expect(underlineLength("  dependencies: [left, rigth]", 24)).toBe(5);
  expect(underlineLength('  url: "{{ nope }}"', 8)).toBe(12);
  expect(underlineLength("", 1)).toBe(1);
});
