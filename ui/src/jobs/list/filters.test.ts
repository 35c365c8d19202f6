import { expect, test } from "vitest";
import { canFind, filtersOf, hasFilters, queryOf } from "./filters";

test("filters come from the address", () => {
  expect(filtersOf({ status: "failed", workflow: "diamond", search: "1m7" })).toEqual({
    status: "failed",
    workflow: "diamond",
    search: "1m7",
  });
});

test("what the server would refuse is left out", () => {
  expect(filtersOf({ status: "done", workflow: "no such/name", search: "   " })).toEqual({});
});

test("a search that the router read as a number is still a text", () => {
  expect(filtersOf({ search: 42 })).toEqual({ search: "42" });
});

test("a search is cut to what the server takes", () => {
  expect(filtersOf({ search: "x".repeat(500) }).search).toHaveLength(128);
});

test("the workflow is asked for by the name that the API has for it", () => {
  expect(queryOf({ workflow: "diamond" })).toEqual({ workflow_id: "diamond", status: undefined, search: undefined });
});

test("words that no id or key can have find nothing", () => {
  expect(canFind({ search: "1m7" })).toBe(true);
  expect(canFind({})).toBe(true);
  expect(canFind({ search: "two words" })).toBe(false);
  expect(canFind({ search: "é" })).toBe(false);
});

test("an empty filter is none", () => {
  expect(hasFilters({})).toBe(false);
  expect(hasFilters({ status: "failed" })).toBe(true);
});
