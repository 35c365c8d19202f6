import { expect, test } from "vitest";
import type { Json } from "../../api/types";
import type { ComparedJob } from "../model/compare";
import { buildGraph } from "../model/graph";
import { initialState, type NodeState } from "../model/state";
import { describeDifference, previewOf, sideText } from "./difference_text";

function createJob(change: Partial<NodeState>, output: Json = null): ComparedJob {
  const state = initialState(buildGraph({ workflow_id: "w", nodes: [{ id: "charge", handler: "fail" }] }));
  state.nodes = state.nodes.map((node) => ({ ...node, ...change }));
  return { jobId: "j", state, outputs: new Map([["charge", output]]) };
}

const failed = createJob({ status: "failed", attempt: 3, error: { message: "declined" } });
const completed = createJob({ status: "completed", attempt: 1 }, { paid: true });

test("a difference in status names both statuses", () => {
  expect(describeDifference({ nodeId: "charge", kind: "status" }, failed, completed)).toContain(
    "charge is failed on the left and completed on the right",
  );
});

test("each side shows the value that differs", () => {
  expect(sideText({ nodeId: "charge", kind: "status" }, failed)).toBe("failed");
  expect(sideText({ nodeId: "charge", kind: "error" }, failed)).toBe("declined");
  expect(sideText({ nodeId: "charge", kind: "attempts" }, failed)).toBe("3");
  expect(sideText({ nodeId: "charge", kind: "output" }, completed)).toBe('{"paid":true}');
});

test("a node that a version does not have is missing", () => {
  expect(sideText({ nodeId: "ship", kind: "only_left" }, failed)).toBe("missing");
});

test("long values are truncated", () => {
  expect(previewOf("x".repeat(1000)).endsWith("…")).toBe(true);
  expect(previewOf(null)).toBe("null");
});
