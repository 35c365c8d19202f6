// Filters of the job list, kept in the URL.

import type { Query } from "../../api/client";
import type { JobStatus } from "../../api/types";
import { isId, textParam } from "../../lib/search_params";

export interface JobFilters {
  status?: JobStatus;
  workflow?: string;
  search?: string;
}

export const JOB_STATUSES: readonly JobStatus[] = ["pending", "running", "completed", "failed", "cancelled"];
// The limit of the server.
export const SEARCH_MAX = 128;

/** Parse the filters in the URL. Invalid values are omitted. */
export function parseFilters(search: Record<string, unknown>): JobFilters {
  const filters: JobFilters = {};
  const status = JOB_STATUSES.find((known) => known === search.status);
  if (status) {
    filters.status = status;
  }
  const workflow = textParam(search.workflow);
  if (isId(workflow)) {
    filters.workflow = workflow;
  }
  const text = textParam(search.search).trim();
  if (text) {
    filters.search = text.slice(0, SEARCH_MAX);
  }
  return filters;
}

export function toQuery({ status, workflow, search }: JobFilters): Query {
  return { status, workflow_id: workflow, search };
}

/** Whether the search is valid: ids and keys are printable ASCII, and the server rejects other characters. */
export function isValidSearch({ search }: JobFilters): boolean {
  return search === undefined || /^[!-~]+$/.test(search);
}

export function hasFilters(filters: JobFilters): boolean {
  return Object.keys(filters).length > 0;
}
