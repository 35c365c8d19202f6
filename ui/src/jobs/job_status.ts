// What follows from the state of a job.

const ENDED = new Set(["completed", "failed", "cancelled"]);
const RETRYABLE = new Set(["failed", "cancelled"]);

export function hasEnded(status: string): boolean {
  return ENDED.has(status);
}

/** Whether a retry has something to run again. */
export function isRetryable(status: string): boolean {
  return RETRYABLE.has(status);
}
