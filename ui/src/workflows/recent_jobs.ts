// What the last jobs of a workflow say about it.

import { between } from "../lib/format";
import type { RecentJob } from "./types";

/** How many of the jobs ended, and how many of those well. */
export function outcomesOf(jobs: readonly RecentJob[]): { ended: number; completed: number } {
  const ended = jobs.filter((job) => job.completed_at !== null);
  return { ended: ended.length, completed: ended.filter((job) => job.status === "completed").length };
}

/** Each job's time as a share of the longest one's. */
export function sharesOf(jobs: readonly RecentJob[], now: number): number[] {
  const times = jobs.map((job) => between(job.started_at, job.completed_at, now) ?? 0);
  const longest = Math.max(...times);
  return times.map((time) => (longest > 0 ? time / longest : 0));
}
