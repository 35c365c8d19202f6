import { expect, test } from "vitest";
import { indent, newLine, outdent, placeOf, type TextEdit } from "./indent";

/** The text after an edit, the selection between brackets. */
function after(text: string, edit: TextEdit): string {
  const made = text.slice(0, edit.from) + edit.insert + text.slice(edit.to);
  return `${made.slice(0, edit.start)}[${made.slice(edit.start, edit.end)}]${made.slice(edit.end)}`;
}

test("Tab goes to the next stop", () => {
  expect(after("ab", indent("ab", 0, 0))).toBe("  []ab");
  expect(after("abc", indent("abc", 1, 1))).toBe("a []bc");
});

test("Tab indents every selected line but the empty ones", () => {
  expect(after("a\n\nb\nc", indent("a\n\nb\nc", 0, 4))).toBe("  [a\n\n  b]\nc");
});

test("Shift+Tab takes one step back, and no more than there is", () => {
  expect(after("    a", outdent("    a", 5, 5))).toBe("  a[]");
  expect(after(" a\nb", outdent(" a\nb", 0, 4))).toBe("[a\nb]");
});

test("a new line is as deep as the one before, deeper after a colon", () => {
  expect(after("  a: 1", newLine("  a: 1", 6, 6))).toBe("  a: 1\n  []");
  expect(after("  a:", newLine("  a:", 4, 4))).toBe("  a:\n    []");
  expect(after("code: |", newLine("code: |", 7, 7))).toBe("code: |\n  []");
});

test("a line and a column have a place, within the text", () => {
  expect(placeOf("ab\ncd\nef", 2, 2)).toBe(4);
  expect(placeOf("ab\ncd", 1, 99)).toBe(2);
  expect(placeOf("ab\ncd", 9, 1)).toBe(5);
});
