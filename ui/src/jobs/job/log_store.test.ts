import { beforeAll, expect, test } from "vitest";
import type { Log } from "../../api/types";
import { LINES_MAX, LogStore } from "./log_store";

beforeAll(() => {
  globalThis.requestAnimationFrame ??= (callback) => setTimeout(callback, 0) as unknown as number;
});

function lines(count: number, from = 0): Log[] {
  return Array.from({ length: count }, (_, index) => ({ log_id: from + index, message: "x" }) as Log);
}

test("lines keep their order", () => {
  const store = new LogStore("j", undefined);
  store.append(lines(3));
  store.append(lines(2, 3));
  expect(store.lines.map((line) => line.log_id)).toEqual([0, 1, 2, 3, 4]);
});

test("the oldest lines are dropped and counted", () => {
  const store = new LogStore("j", undefined);
  store.append(lines(LINES_MAX));
  expect(store.droppedCount).toBe(0);
  store.append(lines(10, LINES_MAX));
  expect(store.lines.length).toBeLessThanOrEqual(LINES_MAX);
  expect(store.lines.length + store.droppedCount).toBe(LINES_MAX + 10);
  expect(store.lines.at(-1)?.log_id).toBe(LINES_MAX + 9);
});
