import { expect, test } from "vitest";
import { DIFFERENCES_MAX, valueDifferences } from "./value_diff";

test("equal values have no difference, regardless of key order", () => {
  expect(valueDifferences({ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 })).toEqual([]);
});

test("a difference has a path", () => {
  expect(
    valueDifferences({ user: { name: "Ada", tags: ["a", "b"] } }, { user: { name: "Ada", tags: ["a", "c"] } }),
  ).toEqual([{ path: "user.tags[1]", left: "b", right: "c" }]);
});

test("a missing value is undefined", () => {
  expect(valueDifferences({ a: 1 }, { b: null })).toEqual([
    { path: "a", left: 1, right: undefined },
    { path: "b", left: undefined, right: null },
  ]);
});

test("a list and an object differ as a whole", () => {
  expect(valueDifferences({ a: [] }, { a: {} })).toEqual([{ path: "a", left: [], right: {} }]);
});

test("the number of differences is limited", () => {
  const left = Array.from({ length: 1000 }, (_, index) => index);
  const right = left.map((number) => number + 1);
  expect(valueDifferences(left, right)).toHaveLength(DIFFERENCES_MAX);
});
