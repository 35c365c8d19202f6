// Search parameters of the run and delivery lists.

import { isId, textParam } from "../lib/search_params";

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
  /** The delivery shown in a dialog. */
  delivery?: string;
}

export function parseRunsSearch(search: Record<string, unknown>): RunsSearch {
  const result: RunsSearch = {};
  const workflow = textParam(search.workflow);
  if (isId(workflow)) {
    result.workflow = workflow;
  }
  const state = RUN_STATES.find((known) => known === search.state);
  if (state) {
    result.state = state;
  }
  return result;
}

export function parseDeliveriesSearch(search: Record<string, unknown>): DeliveriesSearch {
  const result: DeliveriesSearch = {};
  const workflow = textParam(search.workflow);
  if (isId(workflow)) {
    result.workflow = workflow;
  }
  const outcome = DELIVERY_OUTCOMES.find((known) => known === search.outcome);
  if (outcome) {
    result.outcome = outcome;
  }
  const delivery = textParam(search.delivery);
  if (delivery) {
    result.delivery = delivery;
  }
  return result;
}
