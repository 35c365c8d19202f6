import { expect, test } from "vitest";
import { IncrementalFilter } from "./incremental_filter";

test("only new items are tested", () => {
  let tested = 0;
  const filter = new IncrementalFilter<number>((number) => {
    tested++;
    return number % 2 === 0;
  });
  const numbers = [1, 2, 3, 4];
  expect(filter.apply(numbers)).toEqual([2, 4]);
  numbers.push(5, 6);
  expect(filter.apply(numbers)).toEqual([2, 4, 6]);
  expect(tested).toBe(6);
});

test("another list is filtered from its start", () => {
  const filter = new IncrementalFilter<number>((number) => number > 1);
  expect(filter.apply([1, 2])).toEqual([2]);
  expect(filter.apply([3])).toEqual([3]);
});

test("a list that became shorter is filtered from its start", () => {
  const filter = new IncrementalFilter<number>(() => true);
  const numbers = [1, 2, 3];
  filter.apply(numbers);
  numbers.splice(0, 2);
  expect(filter.apply(numbers)).toEqual([3]);
});
