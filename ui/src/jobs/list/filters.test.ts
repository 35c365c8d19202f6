import { expect, test } from "vitest";
import { hasFilters, isValidSearch, parseFilters, toQuery } from "./filters";

test("filters are parsed from the URL", () => {
  expect(parseFilters({ status: "failed", workflow: "diamond", search: "1m7" })).toEqual({
    status: "failed",
    workflow: "diamond",
    search: "1m7",
  });
});

test("invalid filters are omitted", () => {
  expect(parseFilters({ status: "done", workflow: "no such/name", search: "   " })).toEqual({});
});

test("a numeric search is text", () => {
  expect(parseFilters({ search: 42 })).toEqual({ search: "42" });
});

test("a search is truncated to the limit of the server", () => {
  expect(parseFilters({ search: "x".repeat(500) }).search).toHaveLength(128);
});

test("the query uses the parameter names of the API", () => {
  expect(toQuery({ workflow: "diamond" })).toEqual({ workflow_id: "diamond", status: undefined, search: undefined });
});

test("spaces and other characters are invalid in a search", () => {
  expect(isValidSearch({ search: "1m7" })).toBe(true);
  expect(isValidSearch({})).toBe(true);
  expect(isValidSearch({ search: "two words" })).toBe(false);
  expect(isValidSearch({ search: "é" })).toBe(false);
});

test("hasFilters is false without filters", () => {
  expect(hasFilters({})).toBe(false);
  expect(hasFilters({ status: "failed" })).toBe(true);
});
