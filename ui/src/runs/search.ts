// What the addresses of the lists of runs and deliveries say.

import { isId, wordOf } from "../lib/search_params";

export const RUN_STATES = [
  "pre_run",
  "pending",
  "condition_pending",
  "condition_running",
  "action_pending",
  "action_running",
  "container_creating",
  "running",
  "terminating",
  "retrying",
  "completed",
  "failed",
  "cancelled",
  "orphaned",
] as const;
export type RunState = (typeof RUN_STATES)[number];

export const DELIVERY_OUTCOMES = ["delivered", "failed"] as const;
export type DeliveryOutcome = (typeof DELIVERY_OUTCOMES)[number];

export interface RunsSearch {
  workflow?: string;
  state?: RunState;
}

export interface DeliveriesSearch {
  workflow?: string;
  outcome?: DeliveryOutcome;
  /** The delivery that is shown whole. */
  delivery?: string;
}

export function runsSearchOf(search: Record<string, unknown>): RunsSearch {
  const found: RunsSearch = {};
  const workflow = wordOf(search.workflow);
  if (isId(workflow)) {
    found.workflow = workflow;
  }
  const state = RUN_STATES.find((one) => one === search.state);
  if (state) {
    found.state = state;
  }
  return found;
}

export function deliveriesSearchOf(search: Record<string, unknown>): DeliveriesSearch {
  const found: DeliveriesSearch = {};
  const workflow = wordOf(search.workflow);
  if (isId(workflow)) {
    found.workflow = workflow;
  }
  const outcome = DELIVERY_OUTCOMES.find((one) => one === search.outcome);
  if (outcome) {
    found.outcome = outcome;
  }
  const delivery = wordOf(search.delivery);
  if (delivery) {
    found.delivery = delivery;
  }
  return found;
}
