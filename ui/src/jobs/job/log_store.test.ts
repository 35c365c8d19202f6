import { beforeAll, expect, test } from "vitest";
import type { Log } from "../../api/types";
import { LINES_MAX, LogStore } from "./log_store";

beforeAll(() => {
  globalThis.requestAnimationFrame ??= (draw) => setTimeout(draw, 0) as unknown as number;
});

function lines(count: number, from = 0): Log[] {
  return Array.from({ length: count }, (_, place) => ({ log_id: from + place, message: "x" }) as Log);
}

test("lines stand in the order in which they came", () => {
  const store = new LogStore("j", undefined);
  store.take(lines(3));
  store.take(lines(2, 3));
  expect(store.lines.map((line) => line.log_id)).toEqual([0, 1, 2, 3, 4]);
});

test("the first lines are given up when there are too many, and it is said how many", () => {
  const store = new LogStore("j", undefined);
  store.take(lines(LINES_MAX));
  expect(store.dropped).toBe(0);
  store.take(lines(10, LINES_MAX));
  expect(store.lines.length).toBeLessThanOrEqual(LINES_MAX);
  expect(store.lines.length + store.dropped).toBe(LINES_MAX + 10);
  expect(store.lines.at(-1)?.log_id).toBe(LINES_MAX + 9);
});
