// Chooses the job whose graph is shown above the list.

import type { Job } from "../../api/types";
import { isInternal } from "../internal_workflow";
import { isFinal } from "../job_status";

/** Keep the current job until it ends and another runs, except for jobs that deliver webhooks. `jobs` are sorted newest first. */
export function chooseFeaturedJob(
  currentId: string | null,
  listed: readonly Pick<Job, "job_id" | "status" | "workflow_id">[],
): string | null {
  const jobs = listed.filter((job) => !isInternal(job.workflow_id));
  const current = jobs.find((job) => job.job_id === currentId);
  if (current && !isFinal(current.status)) {
    return currentId;
  }
  const running = jobs.find((job) => job.status === "running");
  return running?.job_id ?? currentId ?? jobs[0]?.job_id ?? null;
}
