import { expect, test } from "vitest";
import { changeCounts, diffLines, folded, type Line, sideBySide } from "./diff";

function told(lines: Line[]): string[] {
  return lines.map((line) => ({ same: " ", removed: "-", added: "+" })[line.kind] + line.text);
}

function text(...lines: string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

function side(lines: Line[], which: "left" | "right"): string {
  return text(...lines.filter((line) => line[which] !== null).map((line) => line.text));
}

test("equal texts have no change", () => {
  expect(told(diffLines(text("a", "b"), text("a", "b")))).toEqual([" a", " b"]);
});

test("a changed line is one removed and one added", () => {
  expect(told(diffLines(text("a", "b", "c"), text("a", "x", "c")))).toEqual([" a", "-b", "+x", " c"]);
});

test("the shortest way is taken", () => {
  const lines = diffLines(text(..."ABCABBA"), text(..."CBABAC"));
  expect(changeCounts(lines)).toEqual({ added: 2, removed: 3 });
});

test("lines have their numbers on both sides", () => {
  const lines = diffLines(text("a", "b"), text("new", "a", "b"));
  expect(lines.map((line) => [line.left, line.right])).toEqual([
    [null, 1],
    [1, 2],
    [2, 3],
  ]);
});

test("a text that is empty gains everything", () => {
  expect(told(diffLines("", text("a", "b")))).toEqual(["+a", "+b"]);
  expect(told(diffLines(text("a"), ""))).toEqual(["-a"]);
});

test("either side of any difference is the text it was made from", () => {
  let seed = 7;
  const chance = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
  for (let round = 0; round < 200; round++) {
    const make = () => text(...Array.from({ length: chance(30) }, () => "abcd"[chance(4)] ?? "a"));
    const [before, after] = [make(), make()];
    const lines = diffLines(before, after);
    expect(side(lines, "left")).toBe(before);
    expect(side(lines, "right")).toBe(after);
  }
});

test("texts that share nothing and are long are told whole", () => {
  const before = text(...Array.from({ length: 3_000 }, (_, n) => `a${n}`));
  const after = text(...Array.from({ length: 3_000 }, (_, n) => `b${n}`));
  expect(changeCounts(diffLines(before, after))).toEqual({ added: 3_000, removed: 3_000 });
});

test("what is far from a change is folded", () => {
  const before = Array.from({ length: 40 }, (_, n) => `line ${n}`);
  const after = before.with(20, "changed");
  const blocks = folded(diffLines(text(...before), text(...after)), 3);
  expect(blocks.map((block) => [block.folded, block.lines.length])).toEqual([
    [true, 17],
    [false, 8],
    [true, 16],
  ]);
});

test("what was removed stands beside what came in its place", () => {
  const pairs = sideBySide(diffLines(text("a", "b", "c", "d"), text("a", "x", "d")));
  expect(pairs.map(({ left, right }) => [left?.text, right?.text])).toEqual([
    ["a", "a"],
    ["b", "x"],
    ["c", undefined],
    ["d", "d"],
  ]);
});
