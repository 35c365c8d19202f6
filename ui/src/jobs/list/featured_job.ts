// Which job the list shows in its graph: one that runs, and that one until it has ended and another runs.

import type { Job } from "../../api/types";
import { hasEnded } from "../job_status";

/** `jobs` are newest first. Without one that runs, the newest; none when there are no jobs. */
export function watchedOf(before: string | null, jobs: readonly Pick<Job, "job_id" | "status">[]): string | null {
  const known = jobs.find((job) => job.job_id === before);
  if (known && !hasEnded(known.status)) {
    return before;
  }
  const running = jobs.find((job) => job.status === "running");
  return running?.job_id ?? before ?? jobs[0]?.job_id ?? null;
}
