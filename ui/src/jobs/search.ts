// Search parameters of the job and compare pages.

import { textParam } from "../lib/search_params";

export const JOB_TABS = ["graph", "timeline", "events", "logs", "result"] as const;
export type JobTab = (typeof JOB_TABS)[number];

export interface JobSearch {
  /** The graph by default. */
  tab?: JobTab;
  node?: string;
  /** The event after which the job is shown; the present by default. */
  at?: number;
}

export interface CompareSearch {
  left?: string;
  right?: string;
}

export function parseJobSearch(search: Record<string, unknown>): JobSearch {
  const result: JobSearch = {};
  const tab = JOB_TABS.find((known) => known === search.tab);
  if (tab && tab !== "graph") {
    result.tab = tab;
  }
  const node = textParam(search.node);
  if (node) {
    result.node = node;
  }
  const at = Number(search.at);
  if (search.at !== undefined && Number.isSafeInteger(at) && at >= 0) {
    result.at = at;
  }
  return result;
}

export function parseCompareSearch(search: Record<string, unknown>): CompareSearch {
  const result: CompareSearch = {};
  const [left, right] = [textParam(search.left), textParam(search.right)];
  if (left) {
    result.left = left;
  }
  if (right) {
    result.right = right;
  }
  return result;
}
