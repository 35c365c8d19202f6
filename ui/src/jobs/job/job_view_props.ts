// Props of the views of a job page: one job at one point in time.

import type { JobState } from "../model/state";
import type { LiveJob } from "./live_job";

export interface JobViewProps {
  live: LiveJob;
  /** Changed in place; views render again with every version. */
  state: JobState;
  /** Sequence number of the event after which the job is shown; undefined for the present. */
  at: number | undefined;
  version: number;
}
