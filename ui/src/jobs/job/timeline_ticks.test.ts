import { expect, test } from "vitest";
import { ticks } from "./timeline_ticks";

test("ticks are at round durations", () => {
  expect(ticks(2_100, 800).map((tick) => tick.name)).toEqual(["0", "500 ms", "1 s", "1.5 s", "2 s"]);
});

test("ticks keep the minimum distance", () => {
  for (const span of [0.4, 7, 133, 2_100, 59_000, 61_000, 4_000_000, 9e8]) {
    const width = 700;
    const result = ticks(span, width, 90);
    const [first, second] = result;
    if (first && second) {
      expect(((second.at - first.at) / span) * width).toBeGreaterThanOrEqual(90 - 1e-6);
    }
    expect(result.length).toBeLessThanOrEqual(9);
  }
});

test("long spans use minutes and hours", () => {
  expect(ticks(600_000, 500).map((tick) => tick.name)).toEqual(["0", "2 m", "4 m", "6 m", "8 m", "10 m"]);
  expect(ticks(10_800_000, 400).at(-1)?.name).toBe("3 h");
});

test("an empty span has one tick", () => {
  expect(ticks(0, 500)).toEqual([{ at: 0, name: "0" }]);
});
