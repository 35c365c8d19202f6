// Predicates on the status of a job.

const FINISHED = new Set(["completed", "failed", "cancelled"]);
const RETRYABLE = new Set(["failed", "cancelled"]);

export function isFinished(status: string): boolean {
  return FINISHED.has(status);
}

/** Whether a retry has nodes to run again. */
export function isRetryable(status: string): boolean {
  return RETRYABLE.has(status);
}
