// Differences between two jobs in words.

import type { Json, Node } from "../../api/types";
import { between, duration } from "../../lib/format";
import { attemptsOf, type Difference, type DifferenceKind, nodeOf } from "../model/compare";
import type { JobState, NodeState } from "../model/state";

/** One of the two jobs: its state, and its nodes with their outputs. */
export interface Side {
  jobId: string;
  state: JobState;
  nodes: ReadonlyMap<string, Node>;
}

const PREVIEW_LENGTH = 160;

export const KIND_WORDS: Record<DifferenceKind, string> = {
  status: "State",
  error: "Error",
  attempts: "Attempts",
  output: "Output",
  only_left: "Only on the left",
  only_right: "Only on the right",
  duration: "Duration",
};

/** What the first difference means. */
export function explained({ nodeId, kind }: Difference, left: Side, right: Side): string {
  const [one, other] = [nodeOf(left.state, nodeId), nodeOf(right.state, nodeId)];
  switch (kind) {
    case "status":
      return `${nodeId} is ${one?.status} on the left and ${other?.status} on the right. Everything before it went alike.`;
    case "error":
      return `${nodeId} failed in both jobs, but with different errors.`;
    case "attempts":
      return `${nodeId} took ${one ? attemptsOf(one) : 0} attempts on the left and ${other ? attemptsOf(other) : 0} on the right.`;
    case "output":
      return `${nodeId} completed in both jobs and gave back something else. What follows had another input.`;
    case "only_left":
      return `Only the left job's version has the node ${nodeId}.`;
    case "only_right":
      return `Only the right job's version has the node ${nodeId}.`;
    case "duration":
      return `${nodeId} took ${tookText(one)} on the left and ${tookText(other)} on the right.`;
  }
}

/** What stands on one side of a difference. */
export function sideText({ nodeId, kind }: Difference, side: Side): string {
  const node = nodeOf(side.state, nodeId);
  if (!node) {
    return "not there";
  }
  switch (kind) {
    case "error":
      return node.error?.message ?? "";
    case "attempts":
      return String(attemptsOf(node));
    case "output":
      return previewOf(side.nodes.get(nodeId)?.output ?? null);
    case "duration":
      return tookText(node);
    default:
      return node.status;
  }
}

export function previewOf(value: Json | undefined): string {
  if (value === undefined) {
    return "not there";
  }
  const text = JSON.stringify(value);
  return text.length > PREVIEW_LENGTH ? `${text.slice(0, PREVIEW_LENGTH)}…` : text;
}

function tookText(node: NodeState | undefined): string {
  const seconds = node ? between(node.startedAt, node.endedAt) : null;
  return seconds === null ? "–" : duration(seconds);
}
