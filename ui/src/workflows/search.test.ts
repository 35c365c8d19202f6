import { expect, test } from "vitest";
import { editorSearchOf, listSearchOf, workflowSearchOf } from "./search";

test("what an address says of a workflow is kept as far as it makes sense", () => {
  expect(workflowSearchOf({ tab: "versions", left: "1", right: 3 })).toEqual({ tab: "versions", left: 1, right: 3 });
  expect(workflowSearchOf({ tab: "nonsense", version: "a b", left: -1, right: "x" })).toEqual({});
});

test("a version may be a number or an alias", () => {
  expect(workflowSearchOf({ version: 2 })).toEqual({ version: "2" });
  expect(workflowSearchOf({ version: "live" })).toEqual({ version: "live" });
});

test("the node that is shown and the number of jobs that count are kept", () => {
  expect(workflowSearchOf({ node: 7, jobs: "100" })).toEqual({ node: "7", jobs: 100 });
});

test("the overview needs no name in the address", () => {
  expect(workflowSearchOf({ tab: "overview" })).toEqual({});
});

test("a search of nothing is none", () => {
  expect(listSearchOf({ search: "  " })).toEqual({});
  expect(listSearchOf({ search: 42 })).toEqual({ search: "42" });
  expect(editorSearchOf({ id: "../x" })).toEqual({});
});
