// The state of a job and its nodes after an event.

import type { Job, JobStatus, Loop, NodeError, NodeStatus } from "../../api/types";
import type { Graph } from "./graph";

export type LoopCounts = Required<Loop>;
export type Outcome = "completed" | "failed" | "retrying" | "called" | "cancelled";

export interface Attempt {
  number: number;
  dispatchedAt: string | null;
  startedAt: string | null;
  endedAt: string | null;
  /** Null while the attempt is active; `retrying` if it failed and another attempt follows, `called` if it succeeded. */
  outcome: Outcome | null;
  error: NodeError | null;
  worker: string | null;
}

/** Immutable: a changed node is a new object. */
export interface NodeState {
  readonly status: NodeStatus;
  readonly attempt: number;
  readonly readyAt: string | null;
  readonly dispatchedAt: string | null;
  /** Start of the first attempt since the job was started or retried, as in the API. */
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly error: NodeError | null;
  /** Why the node was skipped or cancelled. */
  readonly reason: string | null;
  /** When the next attempt is due, while the node waits for it. */
  readonly waitUntil: string | null;
  readonly loop: LoopCounts | null;
  /** The number of pages that were read, if there were more than allowed. */
  readonly exhaustedPages: number | null;
  /** Of a loop: the number of iterations that completed although more pages were left. */
  readonly exhaustedIterations: number;
  readonly attempts: readonly Attempt[];
}

/** Changed in place; `version` increases with every change. */
export interface JobState {
  status: JobStatus;
  /** Sequence number of the last event applied. */
  seq: number;
  at: string | null;
  startedAt: string | null;
  endedAt: string | null;
  error: NodeError | null;
  /** Failures that a completed job tolerated. */
  failures: number;
  nodes: NodeState[];
  version: number;
  graph: Graph;
  /** Whether START nodes are completed. */
  hasBegun: boolean;
  /** For each loop, its active iterations by index. */
  activeIterations: Map<number, Map<number, "running" | "waiting">>;
}

export const PENDING_NODE: NodeState = {
  status: "pending",
  attempt: 0,
  readyAt: null,
  dispatchedAt: null,
  startedAt: null,
  endedAt: null,
  error: null,
  reason: null,
  waitUntil: null,
  loop: null,
  exhaustedPages: null,
  exhaustedIterations: 0,
  attempts: [],
};

/** The state before the first event. */
export function initialState(graph: Graph, job?: Pick<Job, "created_at">): JobState {
  return {
    status: "pending",
    seq: 0,
    at: job?.created_at ?? null,
    startedAt: null,
    endedAt: null,
    error: null,
    failures: 0,
    nodes: graph.nodes.map(() => PENDING_NODE),
    version: 0,
    graph,
    hasBegun: false,
    activeIterations: new Map(),
  };
}

/** Copy a state so that events can be applied to the copy. Unchanged parts are shared. */
export function copyState(state: JobState): JobState {
  const activeIterations = new Map(
    [...state.activeIterations].map(([node, iterations]) => [node, new Map(iterations)]),
  );
  return { ...state, nodes: state.nodes.slice(), activeIterations };
}

/** Set the counts of a loop whose iteration events are not loaded. */
export function setLoopCounts(state: JobState, number: number, loop: LoopCounts): void {
  const node = state.nodes[number];
  if (node) {
    state.nodes[number] = { ...node, loop };
    state.version++;
  }
}
