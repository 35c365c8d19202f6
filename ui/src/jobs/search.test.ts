import { expect, test } from "vitest";
import { parseCompareSearch, parseJobSearch } from "./search";

test("a job has tab, node and event parameters", () => {
  expect(parseJobSearch({ tab: "logs", node: "join", at: 17 })).toEqual({ tab: "logs", node: "join", at: 17 });
});

test("the graph is the default tab", () => {
  expect(parseJobSearch({ tab: "graph" })).toEqual({});
});

test("invalid tabs and events are omitted", () => {
  expect(parseJobSearch({ tab: "map", at: -3 })).toEqual({});
  expect(parseJobSearch({ at: "soon" })).toEqual({});
});

test("a numeric node id is text", () => {
  expect(parseJobSearch({ node: 7 })).toEqual({ node: "7" });
});

test("a comparison has two job parameters", () => {
  expect(parseCompareSearch({ left: "a", right: 12, more: true })).toEqual({ left: "a", right: "12" });
});
