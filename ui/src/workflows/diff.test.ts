import { expect, test } from "vitest";
import { countChanges, diffLines, type Line, sideBySide, toBlocks } from "./diff";

function format(lines: Line[]): string[] {
  return lines.map((line) => ({ same: " ", removed: "-", added: "+" })[line.kind] + line.text);
}

function text(...lines: string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

function side(lines: Line[], which: "left" | "right"): string {
  return text(...lines.filter((line) => line[which] !== null).map((line) => line.text));
}

test("equal texts have no change", () => {
  expect(format(diffLines(text("a", "b"), text("a", "b")))).toEqual([" a", " b"]);
});

test("a changed line is one removed and one added", () => {
  expect(format(diffLines(text("a", "b", "c"), text("a", "x", "c")))).toEqual([" a", "-b", "+x", " c"]);
});

test("the edit script is the shortest", () => {
  const lines = diffLines(text(..."ABCABBA"), text(..."CBABAC"));
  expect(countChanges(lines)).toEqual({ added: 2, removed: 3 });
});

test("lines have numbers on both sides", () => {
  const lines = diffLines(text("a", "b"), text("new", "a", "b"));
  expect(lines.map((line) => [line.left, line.right])).toEqual([
    [null, 1],
    [1, 2],
    [2, 3],
  ]);
});

test("an empty text has only added or removed lines", () => {
  expect(format(diffLines("", text("a", "b")))).toEqual(["+a", "+b"]);
  expect(format(diffLines(text("a"), ""))).toEqual(["-a"]);
});

test("both texts can be restored from the diff", () => {
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
  for (let round = 0; round < 200; round++) {
    const createText = () => text(...Array.from({ length: random(30) }, () => "abcd"[random(4)] ?? "a"));
    const [before, after] = [createText(), createText()];
    const lines = diffLines(before, after);
    expect(side(lines, "left")).toBe(before);
    expect(side(lines, "right")).toBe(after);
  }
});

test("long texts without common lines are replaced completely", () => {
  const before = text(...Array.from({ length: 3_000 }, (_, n) => `a${n}`));
  const after = text(...Array.from({ length: 3_000 }, (_, n) => `b${n}`));
  expect(countChanges(diffLines(before, after))).toEqual({ added: 3_000, removed: 3_000 });
});

test("lines away from changes are collapsed", () => {
  const before = Array.from({ length: 40 }, (_, n) => `line ${n}`);
  const after = before.with(20, "changed");
  const blocks = toBlocks(diffLines(text(...before), text(...after)), 3);
  expect(blocks.map((block) => [block.isCollapsed, block.lines.length])).toEqual([
    [true, 17],
    [false, 8],
    [true, 16],
  ]);
});

test("removed lines are paired with their replacements", () => {
  const pairs = sideBySide(diffLines(text("a", "b", "c", "d"), text("a", "x", "d")));
  expect(pairs.map(({ left, right }) => [left?.text, right?.text])).toEqual([
    ["a", "a"],
    ["b", "x"],
    ["c", undefined],
    ["d", "d"],
  ]);
});
