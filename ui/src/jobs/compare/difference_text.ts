// Describes differences between two jobs.

import type { Json } from "../../api/types";
import { formatDuration, secondsBetween } from "../../lib/format";
import { type ComparedJob, type Difference, type DifferenceKind, findNode } from "../model/compare";
import type { NodeState } from "../model/state";

const PREVIEW_LENGTH = 160;

export const KIND_NAMES: Record<DifferenceKind, string> = {
  status: "Status",
  error: "Error",
  attempts: "Attempts",
  output: "Output",
  only_left: "Left only",
  only_right: "Right only",
  duration: "Duration",
};

export function describeDifference({ nodeId, kind }: Difference, left: ComparedJob, right: ComparedJob): string {
  const [leftNode, rightNode] = [findNode(left.state, nodeId), findNode(right.state, nodeId)];
  switch (kind) {
    case "status":
      return `${nodeId} is ${leftNode?.status} on the left and ${rightNode?.status} on the right. All nodes before it are equal.`;
    case "error":
      return `${nodeId} failed in both jobs with different errors.`;
    case "attempts":
      return `${nodeId} took ${leftNode?.attempt ?? 0} attempts on the left and ${rightNode?.attempt ?? 0} on the right.`;
    case "output":
      return `${nodeId} completed in both jobs with different outputs. Downstream nodes had different inputs.`;
    case "only_left":
      return `Only the version of the left job has the node ${nodeId}.`;
    case "only_right":
      return `Only the version of the right job has the node ${nodeId}.`;
    case "duration":
      return `${nodeId} took ${durationText(leftNode)} on the left and ${durationText(rightNode)} on the right.`;
  }
}

/** The value of one job for a difference. */
export function sideText({ nodeId, kind }: Difference, job: ComparedJob): string {
  const node = findNode(job.state, nodeId);
  if (!node) {
    return "missing";
  }
  switch (kind) {
    case "error":
      return node.error?.message ?? "";
    case "attempts":
      return String(node.attempt);
    case "output":
      return previewOf(job.outputs.get(nodeId) ?? null);
    case "duration":
      return durationText(node);
    default:
      return node.status;
  }
}

export function previewOf(value: Json | undefined): string {
  if (value === undefined) {
    return "missing";
  }
  const text = JSON.stringify(value);
  return text.length > PREVIEW_LENGTH ? `${text.slice(0, PREVIEW_LENGTH)}…` : text;
}

function durationText(node: NodeState | undefined): string {
  const seconds = node ? secondsBetween(node.startedAt, node.endedAt) : null;
  return seconds === null ? "–" : formatDuration(seconds);
}
