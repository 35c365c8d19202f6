import { expect, test } from "vitest";
import { compareSearchOf, jobSearchOf } from "./search";

test("the address of a job says the tab, the node and the moment", () => {
  expect(jobSearchOf({ tab: "logs", node: "join", at: 17 })).toEqual({ tab: "logs", node: "join", at: 17 });
});

test("the graph is shown without being asked for", () => {
  expect(jobSearchOf({ tab: "graph" })).toEqual({});
});

test("a tab or a moment that does not exist is left out", () => {
  expect(jobSearchOf({ tab: "map", at: -3 })).toEqual({});
  expect(jobSearchOf({ at: "soon" })).toEqual({});
});

test("a node with digits for a name is still a name", () => {
  expect(jobSearchOf({ node: 7 })).toEqual({ node: "7" });
});

test("the address of a comparison names both jobs", () => {
  expect(compareSearchOf({ left: "a", right: 12, more: true })).toEqual({ left: "a", right: "12" });
});
