// Where two jobs part: their nodes in the order in which they run, and what differs.

import type { Json, Node } from "../../api/types";
import type { Graph } from "./graph";
import type { JobState, NodeState } from "./state";
import { milliseconds } from "./timestamps";

export type DifferenceKind = "status" | "error" | "attempts" | "output" | "only_left" | "only_right" | "duration";

export interface Difference {
  nodeId: string;
  kind: DifferenceKind;
}

export interface Comparison {
  /** Never a duration: how long something took is no cause. */
  first: Difference | null;
  all: Difference[];
}

const SLOWER_FACTOR = 2;
const SLOWER_SECONDS = 1;

/** `nodes` bring the outputs, which events do not tell. */
export function firstDifference(
  left: JobState,
  leftNodes: readonly Node[],
  right: JobState,
  rightNodes: readonly Node[],
): Comparison {
  const leftOutputs = new Map(leftNodes.map((node) => [node.node_id, node]));
  const rightOutputs = new Map(rightNodes.map((node) => [node.node_id, node]));
  const all: Difference[] = [];
  for (const nodeId of inOrder(left.graph, right.graph)) {
    const one = nodeOf(left, nodeId);
    const other = nodeOf(right, nodeId);
    if (one === undefined || other === undefined) {
      all.push({ nodeId, kind: other === undefined ? "only_left" : "only_right" });
      continue;
    }
    for (const kind of kindsOf(one, other, leftOutputs.get(nodeId), rightOutputs.get(nodeId))) {
      all.push({ nodeId, kind });
    }
  }
  return { first: all.find(({ kind }) => kind !== "duration") ?? null, all };
}

function kindsOf(one: NodeState, other: NodeState, left?: Node, right?: Node): DifferenceKind[] {
  const kinds: DifferenceKind[] = [];
  if (one.status !== other.status) {
    kinds.push("status");
  } else if (one.status === "failed" && !same(toldError(one), toldError(other))) {
    kinds.push("error");
  }
  if (attemptsOf(one) !== attemptsOf(other)) {
    kinds.push("attempts");
  }
  const haveOutputs = one.status === "completed" && other.status === "completed" && left && right;
  if (haveOutputs && !same(left.output, right.output)) {
    kinds.push("output");
  }
  if (differsInDuration(one, other)) {
    kinds.push("duration");
  }
  return kinds;
}

function toldError(node: NodeState): Json {
  return [node.error?.type ?? null, node.error?.message ?? null];
}

/** Those of its last round count: a job that was retried goes on counting. */
export function attemptsOf(node: NodeState): number {
  return node.attempts.length > 0 ? node.attempts.length : node.attempt;
}

export function nodeOf(state: JobState, nodeId: string): NodeState | undefined {
  return state.nodes[state.graph.index.get(nodeId) ?? -1];
}

/** The nodes of both in the order of the left one; what only the right one has stands after what it waits for. */
function inOrder(left: Graph, right: Graph): string[] {
  const places = new Map(left.nodes.map((node, number) => [node.id, number]));
  const added: string[] = [];
  for (const node of right.nodes) {
    if (!places.has(node.id)) {
      const above = node.parents.map((parent) => places.get(right.nodes[parent]?.id ?? "") ?? -1);
      places.set(node.id, Math.max(-1, ...above));
      added.push(node.id);
    }
  }
  const isAdded = new Set(added);
  const all = [...left.nodes.map((node) => node.id), ...added];
  // Sorting keeps the order of equals: a node that is added comes right after the last one that it waits for.
  const place = (id: string) => (places.get(id) as number) + (isAdded.has(id) ? 0.5 : 0);
  return all.sort((one, other) => place(one) - place(other));
}

function differsInDuration(one: NodeState, other: NodeState): boolean {
  const [first, second] = [secondsOf(one), secondsOf(other)];
  if (first === null || second === null) {
    return false;
  }
  const [shorter, longer] = first < second ? [first, second] : [second, first];
  return longer > SLOWER_FACTOR * shorter && longer - shorter > SLOWER_SECONDS;
}

function secondsOf(node: NodeState): number | null {
  if (node.startedAt === null || node.endedAt === null) {
    return null;
  }
  return (milliseconds(node.endedAt) - milliseconds(node.startedAt)) / 1000;
}

/** Whether two values are the same JSON; the order of keys says nothing. */
export function same(one: Json, other: Json): boolean {
  if (one === other) {
    return true;
  }
  if (one === null || other === null || typeof one !== "object" || typeof other !== "object") {
    return false;
  }
  if (Array.isArray(one) || Array.isArray(other)) {
    const areLists = Array.isArray(one) && Array.isArray(other) && one.length === other.length;
    return areLists && one.every((item, place) => same(item, other[place] as Json));
  }
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && same(one[key] as Json, other[key] as Json))
  );
}
