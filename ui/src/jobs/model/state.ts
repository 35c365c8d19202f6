// The state of a job and of its nodes at one moment, as the pages show it.

import type { Job, JobStatus, Loop, NodeError, NodeStatus } from "../../api/types";
import type { Graph } from "./graph";

export type LoopCounts = Required<Loop>;
export type Outcome = "completed" | "failed" | "retrying" | "cancelled";

export interface Attempt {
  number: number;
  dispatchedAt: string | null;
  startedAt: string | null;
  endedAt: string | null;
  /** Null while it goes on; `retrying` when another one follows. */
  outcome: Outcome | null;
  error: NodeError | null;
  worker: string | null;
}

/** Never changed in place: a node that changed is another object. */
export interface NodeState {
  readonly status: NodeStatus;
  readonly attempt: number;
  readonly readyAt: string | null;
  readonly dispatchedAt: string | null;
  /** Of the last attempt, as the API tells it. */
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly error: NodeError | null;
  /** Why it was skipped or cancelled. */
  readonly reason: string | null;
  /** When its next attempt is due, while it waits for one. */
  readonly waitUntil: string | null;
  readonly loop: LoopCounts | null;
  readonly attempts: readonly Attempt[];
}

export interface JobState {
  status: JobStatus;
  /** The last event that is part of it. */
  seq: number;
  at: string | null;
  startedAt: string | null;
  endedAt: string | null;
  error: NodeError | null;
  nodes: NodeState[];
  /** Grows with every change. */
  version: number;
  graph: Graph;
  /** Whether START nodes have passed. */
  isBegun: boolean;
  /** By loop: its iterations that are out (true) or wait for another attempt (false). */
  flights: Map<number, Map<number, boolean>>;
}

const PENDING: NodeState = {
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
  attempts: [],
};

/** Before the first event. */
export function fresh(graph: Graph, job?: Pick<Job, "created_at">): JobState {
  return {
    status: "pending",
    seq: 0,
    at: job?.created_at ?? null,
    startedAt: null,
    endedAt: null,
    error: null,
    nodes: graph.nodes.map(() => PENDING),
    version: 0,
    graph,
    isBegun: false,
    flights: new Map(),
  };
}

/** A copy that can be folded on; what did not change is shared. */
export function copied(state: JobState): JobState {
  const flights = new Map([...state.flights].map(([node, flying]) => [node, new Map(flying)]));
  return { ...state, nodes: state.nodes.slice(), flights };
}

/** Counts of a loop from elsewhere, where the events of its iterations are not read. */
export function tellLoop(state: JobState, number: number, loop: LoopCounts): void {
  const node = state.nodes[number];
  if (node) {
    state.nodes[number] = { ...node, loop };
    state.version++;
  }
}
