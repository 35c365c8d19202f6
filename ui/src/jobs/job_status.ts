// Predicates on the status of a job.

const FINAL = new Set(["completed", "failed", "cancelled"]);
const RETRYABLE = new Set(["failed", "cancelled"]);

export function isFinal(status: string): boolean {
  return FINAL.has(status);
}

/** Whether a retry has nodes to run again. */
export function isRetryable(status: string): boolean {
  return RETRYABLE.has(status);
}
