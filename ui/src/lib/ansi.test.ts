import { expect, test } from "vitest";
import { ansiSpans, plainText } from "./ansi";

const ESC = "\x1b";

test("a line without colors is one default span", () => {
  expect(ansiSpans("all good")).toEqual([{ text: "all good", style: null }]);
});

test("a named color lasts until the reset", () => {
  expect(ansiSpans(`a ${ESC}[31mred${ESC}[0m b`)).toEqual([
    { text: "a ", style: null },
    { text: "red", style: { className: "text-failed" } },
    { text: " b", style: null },
  ]);
});

test("bright colors map to the named ones", () => {
  expect(ansiSpans(`${ESC}[92mok`)[0]?.style?.className).toBe("text-completed");
});

test("bold and color combine and are removed one by one", () => {
  const spans = ansiSpans(`${ESC}[1;34mboth${ESC}[22mblue${ESC}[39mnone`);
  expect(spans.map((span) => span.style?.className)).toEqual(["text-running font-bold", "text-running", undefined]);
});

test("a 256-color above fifteen comes from the color cube", () => {
  expect(ansiSpans(`${ESC}[38;5;208morange`)[0]?.style?.color).toContain("rgb(255 135 0)");
});

test("a 256-color below sixteen is a named one", () => {
  expect(ansiSpans(`${ESC}[38;5;2mgreen`)[0]?.style).toEqual({ className: "text-completed" });
});

test("a 256-color above 231 comes from the gray ramp", () => {
  expect(ansiSpans(`${ESC}[38;5;240mgray`)[0]?.style?.color).toContain("rgb(88 88 88)");
});

test("a true color is mixed with the text color, and codes after it still apply", () => {
  const style = ansiSpans(`${ESC}[38;2;10;20;300;1mtrue`)[0]?.style;
  expect(style?.color).toBe("color-mix(in srgb, rgb(10 20 255) 55%, var(--ink))");
  expect(style?.className).toBe("font-bold");
});

test("colons work as separators", () => {
  expect(ansiSpans(`${ESC}[38:5:208mx`)[0]?.style?.color).toContain("rgb(255 135 0)");
});

test("a background is a tint of the surface", () => {
  expect(ansiSpans(`${ESC}[41mwarn`)[0]?.style?.background).toBe(
    "color-mix(in srgb, var(--failed) 18%, var(--surface))",
  );
});

test("an empty sequence is a reset", () => {
  expect(ansiSpans(`${ESC}[31ma${ESC}[mb`)[1]).toEqual({ text: "b", style: null });
});

test("cursor moves, titles and control characters are removed", () => {
  expect(plainText(`${ESC}[2K${ESC}[1Aup${ESC}]0;title\x07 and\x08 on${ESC}[?25l`)).toBe("up and on");
});

test("a truncated sequence does not break the line", () => {
  expect(plainText(`before ${ESC}[38;5m after ${ESC}`)).toBe("before  after ");
});

test("escape characters that a worker escaped are parsed", () => {
  expect(ansiSpans("\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07on")).toEqual([
    { text: "red", style: { className: "text-failed" } },
    { text: " ", style: null },
    { text: "on", style: null },
  ]);
});

test("markup stays text", () => {
  expect(plainText(`${ESC}[31m<img src=x onerror=alert(1)>`)).toBe("<img src=x onerror=alert(1)>");
});
