import { expect, test } from "vitest";
import { indent, newLine, offsetOf, outdent, type TextEdit } from "./indent";

/** The text after an edit, with the selection in brackets. */
function after(text: string, edit: TextEdit): string {
  const edited = text.slice(0, edit.from) + edit.insert + text.slice(edit.to);
  return `${edited.slice(0, edit.start)}[${edited.slice(edit.start, edit.end)}]${edited.slice(edit.end)}`;
}

test("Tab moves to the next stop", () => {
  expect(after("ab", indent("ab", 0, 0))).toBe("  []ab");
  expect(after("abc", indent("abc", 1, 1))).toBe("a []bc");
});

test("Tab indents selected lines, except empty ones", () => {
  expect(after("a\n\nb\nc", indent("a\n\nb\nc", 0, 4))).toBe("  [a\n\n  b]\nc");
});

test("Shift+Tab removes at most one step", () => {
  expect(after("    a", outdent("    a", 5, 5))).toBe("  a[]");
  expect(after(" a\nb", outdent(" a\nb", 0, 4))).toBe("[a\nb]");
});

test("a new line keeps the indentation and increases it after a colon", () => {
  expect(after("  a: 1", newLine("  a: 1", 6, 6))).toBe("  a: 1\n  []");
  expect(after("  a:", newLine("  a:", 4, 4))).toBe("  a:\n    []");
  expect(after("code: |", newLine("code: |", 7, 7))).toBe("code: |\n  []");
});

test("the offset of a line and column is within the text", () => {
  expect(offsetOf("ab\ncd\nef", 2, 2)).toBe(4);
  expect(offsetOf("ab\ncd", 1, 99)).toBe(2);
  expect(offsetOf("ab\ncd", 9, 1)).toBe(5);
});
