import { expect, test } from "vitest";
import type { Node } from "../../api/types";
import { graphOf } from "../model/graph";
import { fresh, type NodeState } from "../model/state";
import { explained, previewOf, type Side, sideText } from "./difference_text";

function side(change: Partial<NodeState>, output: Node["output"] = null): Side {
  const state = fresh(graphOf({ workflow_id: "w", nodes: [{ id: "charge", handler: "fail" }] }));
  state.nodes = state.nodes.map((node) => ({ ...node, ...change }));
  return { jobId: "j", state, nodes: new Map([["charge", { output } as Node]]) };
}

const failed = side({ status: "failed", attempt: 3, error: { message: "declined" } });
const completed = side({ status: "completed", attempt: 1 }, { paid: true });

test("another state says which is where", () => {
  expect(explained({ nodeId: "charge", kind: "status" }, failed, completed)).toContain(
    "charge is failed on the left and completed on the right",
  );
});

test("each side shows what differs", () => {
  expect(sideText({ nodeId: "charge", kind: "status" }, failed)).toBe("failed");
  expect(sideText({ nodeId: "charge", kind: "error" }, failed)).toBe("declined");
  expect(sideText({ nodeId: "charge", kind: "attempts" }, failed)).toBe("3");
  expect(sideText({ nodeId: "charge", kind: "output" }, completed)).toBe('{"paid":true}');
});

test("a node that one version lacks is not there", () => {
  expect(sideText({ nodeId: "ship", kind: "only_left" }, failed)).toBe("not there");
});

test("a long value is cut", () => {
  expect(previewOf("x".repeat(1000)).endsWith("…")).toBe(true);
  expect(previewOf(null)).toBe("null");
});
