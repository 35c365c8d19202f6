import { expect, test } from "vitest";
import { Sieve } from "./incremental_filter";

test("only what is new is tested again", () => {
  let tested = 0;
  const sieve = new Sieve<number>((number) => {
    tested++;
    return number % 2 === 0;
  });
  const numbers = [1, 2, 3, 4];
  expect(sieve.of(numbers)).toEqual([2, 4]);
  numbers.push(5, 6);
  expect(sieve.of(numbers)).toEqual([2, 4, 6]);
  expect(tested).toBe(6);
});

test("another list is looked through from its beginning", () => {
  const sieve = new Sieve<number>((number) => number > 1);
  expect(sieve.of([1, 2])).toEqual([2]);
  expect(sieve.of([3])).toEqual([3]);
});

test("a list that became shorter is looked through from its beginning", () => {
  const sieve = new Sieve<number>(() => true);
  const numbers = [1, 2, 3];
  sieve.of(numbers);
  numbers.splice(0, 2);
  expect(sieve.of(numbers)).toEqual([3]);
});
