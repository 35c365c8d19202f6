// A job to be started, as the form has it, and as the server wants it.

import type { Json } from "../../api/types";
import type { Wrong } from "./form_values";

export interface Extras {
  idempotencyKey: string;
  priority: string;
  /** As the field of the browser has it, on the reader's clock: 2030-01-31T08:00 */
  scheduledAt: string;
}

export const NO_EXTRAS: Extras = { idempotencyKey: "", priority: "", scheduledAt: "" };

const PRIORITY_MAX = 1_000;

/** The body of the request; only what was filled in stands in it. */
export function submissionOf(workflowId: string, version: string | undefined, input: Json, extras: Extras): Json {
  const body: { [key: string]: Json } = { workflow_id: workflowId, input_data: input };
  if (version !== undefined) {
    body.version = /^\d+$/.test(version) ? Number(version) : version;
  }
  if (extras.idempotencyKey.trim()) {
    body.idempotency_key = extras.idempotencyKey.trim();
  }
  if (extras.priority.trim()) {
    body.priority = Number(extras.priority);
  }
  if (extras.scheduledAt) {
    body.scheduled_at = new Date(extras.scheduledAt).toISOString();
  }
  return body;
}

export function wrongExtras(extras: Extras): Wrong[] {
  const wrong: Wrong[] = [];
  const priority = Number(extras.priority);
  if (extras.priority.trim() && !(Number.isInteger(priority) && Math.abs(priority) <= PRIORITY_MAX)) {
    wrong.push({ path: "priority", message: `is a whole number from -${PRIORITY_MAX} to ${PRIORITY_MAX}` });
  }
  if (extras.scheduledAt && Number.isNaN(Date.parse(extras.scheduledAt))) {
    wrong.push({ path: "scheduled_at", message: "is not a moment" });
  }
  if (!/^[!-~]{0,255}$/.test(extras.idempotencyKey.trim())) {
    wrong.push({ path: "idempotency_key", message: "has up to 255 letters and signs without spaces" });
  }
  return wrong;
}
