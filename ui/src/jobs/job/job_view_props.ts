// What the parts of a job's page show: one job at one moment.

import type { JobState } from "../model/state";
import type { LiveJob } from "./live_job";

export interface Shown {
  live: LiveJob;
  /** Changed in place; who draws it is drawn again with every version. */
  state: JobState;
  /** The event after which the job is shown; undefined is now. */
  at: number | undefined;
  version: number;
}
