// Applies the events of a job to its state: the only fold, for live state and for time travel.

import type { EventType, StatusEventType } from "../../api/event_types";
import type { Event, EventData, NodeError } from "../../api/types";
import { foldIteration, isIterationEvent } from "./fold_iteration";
import type { Attempt, JobState, LoopCounts, NodeState, Outcome } from "./state";

type Change = Partial<NodeState>;

/** Apply the next event to the state. Events already applied and unknown types change nothing. */
export function fold(state: JobState, event: Event): void {
  if (event.seq <= state.seq) {
    return;
  }
  state.seq = event.seq;
  state.version++;
  // The start of an attempt has the clock of its worker and may be later than events that follow it.
  state.at = state.at !== null && state.at > event.timestamp ? state.at : event.timestamp;
  if (event.node_id === null) {
    foldJob(state, event);
    return;
  }
  const number = state.graph.index.get(event.node_id);
  if (number === undefined) {
    return;
  }
  if (!state.hasBegun && !ENDS_BEFORE_START.has(event.event_type)) {
    begin(state, event.timestamp);
  }
  if (isIterationEvent(event)) {
    foldIteration(state, number, event);
    return;
  }
  const node = state.nodes[number] as NodeState;
  const change = changeOf(state, number, node, event);
  if (change !== null) {
    state.nodes[number] = { ...node, ...change };
  }
}

const ENDS_BEFORE_START: ReadonlySet<EventType> = new Set(["node_cancelled", "node_failed"]);

/** Complete START nodes. They complete with the first step of a job, without an event. */
function begin(state: JobState, at: string): void {
  state.hasBegun = true;
  state.graph.nodes.forEach((node, number) => {
    const current = state.nodes[number] as NodeState;
    if (node.kind === "start" && current.status === "pending") {
      state.nodes[number] = { ...current, status: "completed", endedAt: at };
    }
  });
}

function foldJob(state: JobState, event: Event): void {
  const at = event.timestamp;
  const data: EventData = event.data ?? {};
  switch (event.event_type) {
    case "job_started":
      begin(state, at);
      state.status = "running";
      state.startedAt = at;
      break;
    case "job_completed":
    case "job_failed":
      state.status = event.event_type === "job_failed" ? "failed" : "completed";
      state.endedAt = at;
      state.error = data.error ?? null;
      state.failures = Number(data.failures ?? 0);
      break;
    case "job_cancelled":
      state.status = "cancelled";
      state.endedAt = at;
      state.error = { type: "cancelled", message: data.reason ?? "cancelled by request" };
      break;
    case "job_retried":
      retry(state, at, data);
      break;
    case "job_created":
      break;
    default:
      ignoreForJob(event.event_type);
  }
}

/** Ignore a type without effect on the status of a job; a newer server may send others. tsc reports a missing case. */
function ignoreForJob(_type: Exclude<EventType, StatusEventType<"job">>): void {}

/** Reset the nodes that a retry of the job names. Their attempts keep counting. */
function retry(state: JobState, at: string, data: EventData): void {
  state.status = "running";
  state.startedAt ??= at;
  state.endedAt = null;
  state.error = null;
  state.failures = 0;
  const retried = new Set<number>();
  for (const id of Array.isArray(data.nodes) ? data.nodes : []) {
    const number = state.graph.index.get(String(id));
    if (number !== undefined) {
      retried.add(number);
    }
  }
  const fromNode = state.graph.index.get(String(data.from_node ?? ""));
  for (const number of retried) {
    const parents = state.graph.nodes[number]?.parents ?? [];
    resetNode(state, number, number === fromNode || parents.some((parent) => retried.has(parent)));
  }
  begin(state, at);
}

/** `isRestart` if the inputs of the node may change: its loop then starts over. */
function resetNode(state: JobState, number: number, isRestart: boolean): void {
  const node = state.nodes[number] as NodeState;
  const hasFailures = node.loop !== null && node.loop.failed > 0;
  const keepsLoop = node.loop !== null && !isRestart && (node.status !== "completed" || hasFailures);
  state.activeIterations.delete(number);
  state.nodes[number] = {
    ...node,
    status: "pending",
    readyAt: null,
    dispatchedAt: null,
    startedAt: null,
    endedAt: null,
    error: null,
    reason: null,
    waitUntil: null,
    exhaustedPages: null,
    exhaustedIterations: 0,
    loop: keepsLoop ? { ...(node.loop as LoopCounts), failed: 0, cancelled: 0, running: 0, waiting: 0 } : null,
  };
}

/** Ignore a type without effect on the status of a node; a newer server may send others. tsc reports a missing case. */
function ignoreForNode(_type: Exclude<EventType, StatusEventType<"node">>): null {
  return null;
}

function changeOf(state: JobState, number: number, node: NodeState, event: Event): Change | null {
  const at = event.timestamp;
  const data: EventData = event.data ?? {};
  const attempt = data.attempt_number ?? node.attempt;
  const error = data.error ?? null;
  switch (event.event_type) {
    case "node_ready":
      return state.graph.nodes[number]?.kind === "end"
        ? { status: "completed", readyAt: at, endedAt: at }
        : { status: "ready", readyAt: at, waitUntil: null };
    case "node_dispatched":
      return dispatched(node, attempt, at);
    case "node_started":
      return started(node, attempt, at, data.worker_id ?? null);
    case "node_completed":
      return { ...ended("completed", attempt, at), attempts: withLastEnded(node, at, "completed", null) };
    case "node_retrying":
      return {
        status: "waiting",
        attempt,
        error,
        waitUntil: addSeconds(at, data.delay_seconds ?? 0),
        attempts: withLastEnded(node, at, isFurtherCall(data) ? "called" : "retrying", error),
      };
    case "retry_sequence_completed":
      return {
        status: "waiting",
        exhaustedPages: data.is_exhausted ? Number(data.total_attempts ?? 0) : null,
        attempts: withLastEnded(node, at, "completed", null),
      };
    case "node_failed":
      return { ...ended("failed", attempt, at), error, attempts: withLastEnded(node, at, "failed", error) };
    case "node_skipped":
      return { ...ended("skipped", node.attempt, at), reason: data.reason ?? null };
    case "node_cancelled":
      return {
        ...ended("cancelled", node.attempt, at),
        reason: data.reason ?? null,
        attempts: withLastEnded(node, at, "cancelled", null),
      };
    case "task_redelivered":
      return redelivered(node);
    case "worker_lost":
      // Without an error the next worker starts the same attempt again; with one, another attempt follows.
      return error === null
        ? redelivered(node)
        : { status: "dispatched", attempts: withLastEnded(node, at, "retrying", error) };
    case "iterator_started":
      return loopStarted(node, data);
    case "iterator_completed":
      return loopCompleted(data);
    default:
      return ignoreForNode(event.event_type);
  }
}

/** Whether an attempt succeeded and the handler is called again, for the next page or to poll. */
export function isFurtherCall(data: EventData): boolean {
  return data["calls"] !== undefined && !data.error;
}

function ended(status: "completed" | "failed" | "skipped" | "cancelled", attempt: number, at: string): Change {
  return { status, attempt, endedAt: at, error: null, waitUntil: null };
}

function dispatched(node: NodeState, number: number, at: string): Change {
  const attempt: Attempt = {
    number,
    dispatchedAt: at,
    startedAt: null,
    endedAt: null,
    outcome: null,
    error: null,
    worker: null,
  };
  return {
    status: "dispatched",
    attempt: number,
    dispatchedAt: at,
    error: null,
    waitUntil: null,
    attempts: [...node.attempts, attempt],
  };
}

function started(node: NodeState, number: number, at: string, worker: string | null): Change {
  const last = node.attempts.at(-1);
  const attempts = last ? [...node.attempts.slice(0, -1), { ...last, startedAt: at, worker }] : node.attempts;
  return { status: "running", attempt: number, startedAt: node.startedAt ?? at, attempts };
}

/** Return the last attempt to the queue: its worker was lost. */
function redelivered(node: NodeState): Change {
  const last = node.attempts.at(-1);
  const attempts = last ? [...node.attempts.slice(0, -1), { ...last, startedAt: null, worker: null }] : node.attempts;
  return { status: "dispatched", attempts };
}

/** Return the attempts with the last one ended. */
function withLastEnded(node: NodeState, at: string, outcome: Outcome, error: NodeError | null): readonly Attempt[] {
  const last = node.attempts.at(-1);
  if (last === undefined || last.endedAt !== null) {
    return node.attempts;
  }
  return [...node.attempts.slice(0, -1), { ...last, endedAt: at, outcome, error }];
}

function loopStarted(node: NodeState, data: EventData): Change {
  if (data.left !== undefined && node.loop !== null) {
    return {};
  }
  const total = data.total_iterations ?? 0;
  const none = { begun: 0, completed: 0, failed: 0, skipped: 0, running: 0, waiting: 0, cancelled: 0 };
  return { loop: { total, ...none } };
}

function loopCompleted(data: EventData): Change {
  const total = data.total_iterations ?? 0;
  return {
    exhaustedIterations: Number(data.exhausted ?? 0),
    loop: {
      total,
      begun: total,
      completed: Number(data.successful ?? 0),
      failed: Number(data.failed ?? 0),
      skipped: Number(data.skipped ?? 0),
      running: 0,
      waiting: 0,
      cancelled: 0,
    },
  };
}

function addSeconds(at: string, seconds: number): string {
  return new Date(Date.parse(at) + seconds * 1000).toISOString();
}
