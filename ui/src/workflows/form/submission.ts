// Builds and validates the request that submits a job.

import type { Json } from "../../api/types";
import type { FieldError } from "./form_values";

/** Options of a job, as text of their input fields. */
export interface JobOptions {
  idempotencyKey: string;
  priority: string;
  /** Value of a datetime-local input in local time: 2030-01-31T08:00 */
  scheduledAt: string;
}

export const NO_OPTIONS: JobOptions = { idempotencyKey: "", priority: "", scheduledAt: "" };

const PRIORITY_MAX = 1_000;

/** The body of the request, without empty options. */
export function submitBody(workflowId: string, version: string | undefined, input: Json, options: JobOptions): Json {
  const body: { [key: string]: Json } = { workflow_id: workflowId, input_data: input };
  if (version !== undefined) {
    body.version = /^\d+$/.test(version) ? Number(version) : version;
  }
  if (options.idempotencyKey.trim()) {
    body.idempotency_key = options.idempotencyKey.trim();
  }
  if (options.priority.trim()) {
    body.priority = Number(options.priority);
  }
  if (options.scheduledAt) {
    body.scheduled_at = new Date(options.scheduledAt).toISOString();
  }
  return body;
}

export function validateOptions(options: JobOptions): FieldError[] {
  const errors: FieldError[] = [];
  const priority = Number(options.priority);
  if (options.priority.trim() && !(Number.isInteger(priority) && Math.abs(priority) <= PRIORITY_MAX)) {
    errors.push({ path: "priority", message: `must be an integer from -${PRIORITY_MAX} to ${PRIORITY_MAX}` });
  }
  if (options.scheduledAt && Number.isNaN(Date.parse(options.scheduledAt))) {
    errors.push({ path: "scheduled_at", message: "must be a date and time" });
  }
  if (!/^[!-~]{0,255}$/.test(options.idempotencyKey.trim())) {
    errors.push({ path: "idempotency_key", message: "must be at most 255 ASCII characters without spaces" });
  }
  return errors;
}
