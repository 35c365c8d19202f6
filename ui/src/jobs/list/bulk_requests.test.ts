import { expect, test } from "vitest";
import { CONCURRENCY, sendAll } from "./bulk_requests";

const numbers = Array.from({ length: 20 }, (_, number) => number);

test("one request is sent per item", async () => {
  const seen: number[] = [];
  await sendAll(
    numbers,
    async (number) => seen.push(number),
    () => {},
  );
  expect(seen.sort((a, b) => a - b)).toEqual(numbers);
});

test("the number of concurrent requests is limited", async () => {
  let active = 0;
  let maxActive = 0;
  await sendAll(
    numbers,
    async () => {
      active += 1;
      maxActive = Math.max(maxActive, active);
      await new Promise((resolve) => setTimeout(resolve, 1));
      active -= 1;
    },
    () => {},
  );
  expect(maxActive).toBe(CONCURRENCY);
});

test("a failure is returned and does not stop the others", async () => {
  const done: number[] = [];
  const failures = await sendAll(
    numbers,
    async (number) => {
      if (number === 3) {
        throw new Error("the job has ended");
      }
    },
    (count) => done.push(count),
  );
  expect(failures).toEqual([{ item: 3, reason: "the job has ended" }]);
  expect(done.at(-1)).toBe(20);
});
