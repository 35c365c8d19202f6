// What the events of single iterations mean for the counts of their loop.

import type { Event } from "../../api/types";
import type { JobState, LoopCounts } from "./state";

type Count = "completed" | "failed" | "skipped" | "running" | "waiting" | "cancelled";

/** Some types tell of a node or of an iteration; the index says which. */
export function isOfIteration(event: Event): boolean {
  return event.index !== null;
}

export function foldIteration(state: JobState, number: number, event: Event): void {
  const node = state.nodes[number];
  const index = event.index;
  const enters = ENTERS[event.event_type];
  if (!node?.loop || index === null || enters === undefined) {
    return;
  }
  if (event.event_type === "worker_lost" && !event.data?.error) {
    return;
  }
  let flying = state.flights.get(number);
  if (flying === undefined) {
    flying = new Map();
    state.flights.set(number, flying);
  }
  const before = flying.get(index);
  const loop: LoopCounts = { ...node.loop, begun: Math.max(node.loop.begun, index + 1) };
  if (before !== undefined) {
    loop[before ? "running" : "waiting"]--;
  }
  loop[enters]++;
  if (enters === "running" || enters === "waiting") {
    flying.set(index, enters === "running");
  } else {
    flying.delete(index);
  }
  state.nodes[number] = { ...node, loop };
}

const ENTERS: Record<string, Count> = {
  iteration_dispatched: "running",
  iteration_started: "running",
  iteration_retrying: "waiting",
  // All calls of a series are made, and their outputs are put together.
  retry_sequence_completed: "waiting",
  // With an error another attempt follows at once, or the iteration fails.
  worker_lost: "waiting",
  iteration_completed: "completed",
  iteration_failed: "failed",
  iteration_skipped: "skipped",
  iteration_cancelled: "cancelled",
};
