// Compares two jobs: their nodes in execution order, and what differs.

import type { Json } from "../../api/types";
import type { Graph } from "./graph";
import type { JobState, NodeState } from "./state";
import { toMilliseconds } from "./timestamps";

export type DifferenceKind = "status" | "error" | "attempts" | "output" | "only_left" | "only_right" | "duration";

export interface Difference {
  nodeId: string;
  kind: DifferenceKind;
}

export interface Comparison {
  /** Never a duration, which does not cause other differences. */
  first: Difference | null;
  all: Difference[];
}

/** One of the two jobs. */
export interface ComparedJob {
  jobId: string;
  state: JobState;
  /** By node id. */
  outputs: ReadonlyMap<string, Json>;
}

const SLOWER_FACTOR = 2;
const SLOWER_SECONDS = 1;

export function compareJobs(left: ComparedJob, right: ComparedJob): Comparison {
  const all: Difference[] = [];
  for (const nodeId of executionOrder(left.state.graph, right.state.graph)) {
    const leftNode = findNode(left.state, nodeId);
    const rightNode = findNode(right.state, nodeId);
    if (leftNode === undefined || rightNode === undefined) {
      all.push({ nodeId, kind: rightNode === undefined ? "only_left" : "only_right" });
      continue;
    }
    const hasSameOutput = isSameJson(left.outputs.get(nodeId) ?? null, right.outputs.get(nodeId) ?? null);
    for (const kind of compareNodes(leftNode, rightNode, hasSameOutput)) {
      all.push({ nodeId, kind });
    }
  }
  return { first: all.find(({ kind }) => kind !== "duration") ?? null, all };
}

function compareNodes(left: NodeState, right: NodeState, hasSameOutput: boolean): DifferenceKind[] {
  const kinds: DifferenceKind[] = [];
  if (left.status !== right.status) {
    kinds.push("status");
  } else if (left.status === "failed" && !hasSameError(left, right)) {
    kinds.push("error");
  }
  if (left.attempt !== right.attempt) {
    kinds.push("attempts");
  }
  if (left.status === "completed" && right.status === "completed" && !hasSameOutput) {
    kinds.push("output");
  }
  if (differsInDuration(left, right)) {
    kinds.push("duration");
  }
  return kinds;
}

function hasSameError(left: NodeState, right: NodeState): boolean {
  return left.error?.type === right.error?.type && left.error?.message === right.error?.message;
}

export function findNode(state: JobState, nodeId: string): NodeState | undefined {
  return state.nodes[state.graph.index.get(nodeId) ?? -1];
}

/** Node ids in the order of the left graph. Nodes that only the right graph has follow their last dependency. */
function executionOrder(left: Graph, right: Graph): string[] {
  const positions = new Map(left.nodes.map((node, number) => [node.id, number]));
  const added: string[] = [];
  for (const node of right.nodes) {
    if (!positions.has(node.id)) {
      const parents = node.parents.map((parent) => positions.get(right.nodes[parent]?.id ?? "") ?? -1);
      // The sort is stable: an added node stays behind the last of its dependencies.
      positions.set(node.id, Math.max(-1, ...parents) + 0.5);
      added.push(node.id);
    }
  }
  const ids = [...left.nodes.map((node) => node.id), ...added];
  return ids.sort((one, other) => (positions.get(one) as number) - (positions.get(other) as number));
}

function differsInDuration(left: NodeState, right: NodeState): boolean {
  const [leftSeconds, rightSeconds] = [secondsOf(left), secondsOf(right)];
  if (leftSeconds === null || rightSeconds === null) {
    return false;
  }
  const shorter = Math.min(leftSeconds, rightSeconds);
  const longer = Math.max(leftSeconds, rightSeconds);
  return longer > SLOWER_FACTOR * shorter && longer - shorter > SLOWER_SECONDS;
}

function secondsOf(node: NodeState): number | null {
  if (node.startedAt === null || node.endedAt === null) {
    return null;
  }
  return (toMilliseconds(node.endedAt) - toMilliseconds(node.startedAt)) / 1000;
}

/** Whether two JSON values are equal, regardless of the order of keys. */
export function isSameJson(one: Json, other: Json): boolean {
  if (one === other) {
    return true;
  }
  if (one === null || other === null || typeof one !== "object" || typeof other !== "object") {
    return false;
  }
  if (Array.isArray(one) || Array.isArray(other)) {
    const areLists = Array.isArray(one) && Array.isArray(other) && one.length === other.length;
    return areLists && one.every((item, index) => isSameJson(item, other[index] as Json));
  }
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isSameJson(one[key] as Json, other[key] as Json))
  );
}
