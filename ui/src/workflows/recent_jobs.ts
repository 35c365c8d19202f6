// Statistics of the latest jobs of a workflow.

import { secondsBetween } from "../lib/format";
import type { RecentJob } from "./types";

/** Count the finished and completed jobs. */
export function countFinished(jobs: readonly RecentJob[]): { finished: number; completed: number } {
  const finished = jobs.filter((job) => job.completed_at !== null);
  return { finished: finished.length, completed: finished.filter((job) => job.status === "completed").length };
}

/** The duration of each job relative to the longest. */
export function relativeDurations(jobs: readonly RecentJob[], now: number): number[] {
  const durations = jobs.map((job) => secondsBetween(job.started_at, job.completed_at, now) ?? 0);
  const longest = Math.max(...durations);
  return durations.map((seconds) => (longest > 0 ? seconds / longest : 0));
}
