// Which jobs the list shows, as its address says.

import type { Query } from "../../api/client";
import type { JobStatus } from "../../api/types";
import { isId, wordOf } from "../../lib/search_params";

export interface JobFilters {
  status?: JobStatus;
  workflow?: string;
  search?: string;
}

export const JOB_STATUSES: readonly JobStatus[] = ["pending", "running", "completed", "failed", "cancelled"];
// What the server takes.
export const SEARCH_MAX = 128;

/** The filters in an address; what makes no sense is left out. */
export function filtersOf(search: Record<string, unknown>): JobFilters {
  const filters: JobFilters = {};
  const status = JOB_STATUSES.find((one) => one === search.status);
  if (status) {
    filters.status = status;
  }
  const workflow = wordOf(search.workflow);
  if (isId(workflow)) {
    filters.workflow = workflow;
  }
  const words = wordOf(search.search).trim();
  if (words) {
    filters.search = words.slice(0, SEARCH_MAX);
  }
  return filters;
}

export function queryOf({ status, workflow, search }: JobFilters): Query {
  return { status, workflow_id: workflow, search };
}

/** Whether any job can be found: ids and keys are made of printable ASCII, and the server takes nothing else. */
export function canFind({ search }: JobFilters): boolean {
  return search === undefined || /^[!-~]+$/.test(search);
}

export function hasFilters(filters: JobFilters): boolean {
  return Object.keys(filters).length > 0;
}
