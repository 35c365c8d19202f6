// Which deliveries belong to a run.

import type { Delivery, Run } from "../api/types";

// Attempts of a last webhook may go on for so long after the run.
const AFTER_MS = 60_000;

/** Those of its job, and those of its workflow while it was under way: hooks and actions have jobs of their own. */
export function deliveriesOf(run: Run, deliveries: readonly Delivery[]): Delivery[] {
  const begun = run.transitions.find((transition) => transition.state !== "pre_run");
  const from = Date.parse(begun?.at ?? run.scheduled_at);
  const until = run.completed_at === null ? Number.POSITIVE_INFINITY : Date.parse(run.completed_at) + AFTER_MS;
  return deliveries.filter((delivery) => {
    const sent = Date.parse(delivery.sent_at);
    return delivery.job_id === run.job_id || (delivery.node_id === CALL_NODE && sent >= from && sent <= until);
  });
}

// The node of the workflow that is built in for calls of runs.
const CALL_NODE = "deliver";
