import { expect, test } from "vitest";
import { countdownIntervalMs, formatCountdown } from "./countdown";

const NOW = Date.parse("2026-05-01T00:00:00Z");

function after(seconds: number): string {
  return new Date(NOW + seconds * 1000).toISOString();
}

test.each([
  [-5, "now"],
  [0, "now"],
  [0.2, "1 s"],
  [59, "59 s"],
  [60, "1 m 00 s"],
  [249, "4 m 09 s"],
  [3_600, "1 h 00 m"],
  [11_100, "3 h 05 m"],
  [86_400 * 12 + 3_600 * 4, "12 d 4 h"],
])("%d seconds are formatted as %s", (seconds, text) => {
  expect(formatCountdown(after(seconds), NOW)).toBe(text);
});

test("seconds are shown in the last hour only", () => {
  expect(countdownIntervalMs(after(60), NOW)).toBe(1_000);
  expect(countdownIntervalMs(after(7_200), NOW)).toBe(30_000);
});
