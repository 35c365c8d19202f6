// Applies events of iterations to the counts of their loop.

import type { EventType } from "../../api/event_types";
import type { Event } from "../../api/types";
import type { JobState, LoopCounts } from "./state";

type Count = "completed" | "failed" | "skipped" | "running" | "waiting" | "cancelled";

/** Some event types are used for nodes and iterations; only events of iterations have an index. */
export function isIterationEvent(event: Event): boolean {
  return event.index !== null;
}

export function foldIteration(state: JobState, number: number, event: Event): void {
  const node = state.nodes[number];
  const index = event.index;
  const count = COUNTED_AS[event.event_type];
  if (!node?.loop || index === null || !count) {
    return;
  }
  if (event.event_type === "worker_lost" && !event.data?.error) {
    return;
  }
  let active = state.activeIterations.get(number);
  if (active === undefined) {
    active = new Map();
    state.activeIterations.set(number, active);
  }
  const previous = active.get(index);
  const loop: LoopCounts = { ...node.loop, begun: Math.max(node.loop.begun, index + 1) };
  if (previous !== undefined) {
    loop[previous]--;
  }
  loop[count]++;
  if (count === "running" || count === "waiting") {
    active.set(index, count);
  } else {
    active.delete(index);
  }
  state.nodes[number] = { ...node, loop };
}

/** The count that an iteration moves to; null for events that are not about iterations. */
const COUNTED_AS: Record<EventType, Count | null> = {
  iteration_dispatched: "running",
  iteration_started: "running",
  iteration_retrying: "waiting",
  // All pages are fetched; their outputs are still to be merged.
  retry_sequence_completed: "waiting",
  // With an error, another attempt follows or the iteration fails.
  worker_lost: "waiting",
  iteration_completed: "completed",
  iteration_failed: "failed",
  iteration_skipped: "skipped",
  iteration_cancelled: "cancelled",
  job_created: null,
  job_started: null,
  job_completed: null,
  job_failed: null,
  job_cancelled: null,
  job_retried: null,
  node_ready: null,
  node_dispatched: null,
  node_started: null,
  node_completed: null,
  node_retrying: null,
  node_failed: null,
  node_skipped: null,
  node_cancelled: null,
  iterator_started: null,
  iterator_completed: null,
  result_ignored: null,
};
