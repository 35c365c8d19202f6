import { expect, test } from "vitest";
import { each, REQUESTS_AT_ONCE } from "./bulk_requests";

const numbers = Array.from({ length: 20 }, (_, number) => number);

test("every item is acted on once", async () => {
  const seen: number[] = [];
  await each(
    numbers,
    async (number) => seen.push(number),
    () => {},
  );
  expect(seen.sort((a, b) => a - b)).toEqual(numbers);
});

test("only a few requests are out at a time", async () => {
  let out = 0;
  let most = 0;
  await each(
    numbers,
    async () => {
      out += 1;
      most = Math.max(most, out);
      await new Promise((resolve) => setTimeout(resolve, 1));
      out -= 1;
    },
    () => {},
  );
  expect(most).toBe(REQUESTS_AT_ONCE);
});

test("a refusal is kept with its reason and the others go on", async () => {
  const done: number[] = [];
  const refused = await each(
    numbers,
    async (number) => {
      if (number === 3) {
        throw new Error("the job has ended");
      }
    },
    (count) => done.push(count),
  );
  expect(refused).toEqual([{ item: 3, reason: "the job has ended" }]);
  expect(done.at(-1)).toBe(20);
});
