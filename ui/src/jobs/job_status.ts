// Predicates on the status of a job.

const FINAL = new Set(["completed", "failed", "cancelled"]);
const RETRYABLE = new Set(["failed", "cancelled"]);

export function isFinal(status: string): boolean {
  return FINAL.has(status);
}

/** Whether a retry has nodes or iterations to run again. */
export function isRetryable(status: string, failures: number): boolean {
  return RETRYABLE.has(status) || (status === "completed" && failures > 0);
}
