import { expect, test } from "vitest";
import { ansiPieces, plainText } from "./ansi";

const ESC = "\x1b";

test("a line without colours is one plain piece", () => {
  expect(ansiPieces("all is well")).toEqual([{ text: "all is well", style: null }]);
});

test("a named colour lasts until the reset", () => {
  expect(ansiPieces(`a ${ESC}[31mred${ESC}[0m b`)).toEqual([
    { text: "a ", style: null },
    { text: "red", style: { className: "text-failed" } },
    { text: " b", style: null },
  ]);
});

test("bright colours look like the named ones", () => {
  expect(ansiPieces(`${ESC}[92mok`)[0]?.style?.className).toBe("text-completed");
});

test("bold and colour add up and are taken off one by one", () => {
  const pieces = ansiPieces(`${ESC}[1;34mboth${ESC}[22mblue${ESC}[39mnone`);
  expect(pieces.map((piece) => piece.style?.className)).toEqual(["text-running font-bold", "text-running", undefined]);
});

test("a colour of the 256 comes from the cube", () => {
  expect(ansiPieces(`${ESC}[38;5;208morange`)[0]?.style?.color).toContain("rgb(255 135 0)");
});

test("a colour of the 256 below sixteen is a named one", () => {
  expect(ansiPieces(`${ESC}[38;5;2mgreen`)[0]?.style).toEqual({ className: "text-completed" });
});

test("a grey of the 256 comes from the ramp", () => {
  expect(ansiPieces(`${ESC}[38;5;240mgrey`)[0]?.style?.color).toContain("rgb(88 88 88)");
});

test("a true colour is mixed with the ink, and codes after it still count", () => {
  const style = ansiPieces(`${ESC}[38;2;10;20;300;1mtrue`)[0]?.style;
  expect(style?.color).toBe("color-mix(in srgb, rgb(10 20 255) 55%, var(--ink))");
  expect(style?.className).toBe("font-bold");
});

test("colons may stand where semicolons do", () => {
  expect(ansiPieces(`${ESC}[38:5:208mx`)[0]?.style?.color).toContain("rgb(255 135 0)");
});

test("a background is a tint of the surface", () => {
  expect(ansiPieces(`${ESC}[41mwarn`)[0]?.style?.background).toBe(
    "color-mix(in srgb, var(--failed) 18%, var(--surface))",
  );
});

test("an empty sequence is a reset", () => {
  expect(ansiPieces(`${ESC}[31ma${ESC}[mb`)[1]).toEqual({ text: "b", style: null });
});

test("cursor moves, titles and control characters are not shown", () => {
  expect(plainText(`${ESC}[2K${ESC}[1Aup${ESC}]0;title\x07 and\x08 on${ESC}[?25l`)).toBe("up and on");
});

test("a sequence that is cut off does not break the line", () => {
  expect(plainText(`before ${ESC}[38;5m after ${ESC}`)).toBe("before  after ");
});

test("escape characters that a worker wrote out are read as such", () => {
  expect(ansiPieces("\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07on")).toEqual([
    { text: "red", style: { className: "text-failed" } },
    { text: " ", style: null },
    { text: "on", style: null },
  ]);
});

test("markup stays text", () => {
  expect(plainText(`${ESC}[31m<img src=x onerror=alert(1)>`)).toBe("<img src=x onerror=alert(1)>");
});
