// Finds the deliveries of a run.

import type { Delivery, Run } from "../api/types";
import { WEBHOOK_NODE } from "../jobs/internal_workflow";

// The last webhook may be retried for this time after the run.
const RETRY_MS = 60_000;

/** Deliveries of the job of a run, and of hooks and actions during the run, which have their own jobs. */
export function deliveriesOf(run: Run, deliveries: readonly Delivery[]): Delivery[] {
  const start = run.transitions.find((transition) => transition.state !== "pre_run");
  const from = Date.parse(start?.at ?? run.scheduled_at);
  const until = run.completed_at === null ? Number.POSITIVE_INFINITY : Date.parse(run.completed_at) + RETRY_MS;
  return deliveries.filter((delivery) => {
    const sent = Date.parse(delivery.sent_at);
    return delivery.job_id === run.job_id || (delivery.node_id === WEBHOOK_NODE && sent >= from && sent <= until);
  });
}
