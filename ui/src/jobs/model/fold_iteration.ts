// Applies events of iterations to the counts of their loop.

import type { EventType, StatusEventType } from "../../api/event_types";
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

/** The count that an iteration moves to. tsc reports a missing type that changes the status of an iteration. */
const COUNTED_AS: Record<StatusEventType<"iteration">, Count> & Partial<Record<EventType, Count>> = {
  iteration_dispatched: "running",
  iteration_started: "running",
  iteration_retrying: "waiting",
  // All pages are fetched; their outputs are still to be merged.
  retry_sequence_completed: "waiting",
  // The next worker starts the attempt again, or another attempt follows.
  worker_lost: "running",
  task_redelivered: "running",
  iteration_completed: "completed",
  iteration_failed: "failed",
  iteration_skipped: "skipped",
  iteration_cancelled: "cancelled",
};
