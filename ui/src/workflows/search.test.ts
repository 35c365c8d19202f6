import { expect, test } from "vitest";
import { parseEditorSearch, parseListSearch, parseWorkflowSearch } from "./search";

test("invalid parameters are omitted", () => {
  expect(parseWorkflowSearch({ tab: "versions", left: "1", right: 3 })).toEqual({ tab: "versions", left: 1, right: 3 });
  expect(parseWorkflowSearch({ tab: "nonsense", version: "a b", left: -1, right: "x" })).toEqual({});
});

test("a version may be a number or an alias", () => {
  expect(parseWorkflowSearch({ version: 2 })).toEqual({ version: "2" });
  expect(parseWorkflowSearch({ version: "live" })).toEqual({ version: "live" });
});

test("the node and the number of jobs are parsed", () => {
  expect(parseWorkflowSearch({ node: 7, jobs: "100" })).toEqual({ node: "7", jobs: 100 });
});

test("the overview is the default tab", () => {
  expect(parseWorkflowSearch({ tab: "overview" })).toEqual({});
});

test("an empty search is omitted", () => {
  expect(parseListSearch({ search: "  " })).toEqual({});
  expect(parseListSearch({ search: 42 })).toEqual({ search: "42" });
  expect(parseEditorSearch({ id: "../x" })).toEqual({});
});
