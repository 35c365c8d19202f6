// What the addresses of the pages about one job and about two of them say.

import { wordOf } from "../lib/search_params";

export const JOB_TABS = ["graph", "timeline", "events", "logs", "result"] as const;
export type JobTab = (typeof JOB_TABS)[number];

export interface JobSearch {
  /** Without one, the graph. */
  tab?: JobTab;
  node?: string;
  /** The event whose moment is shown; without one, now. */
  at?: number;
}

export interface CompareSearch {
  left?: string;
  right?: string;
}

export function jobSearchOf(search: Record<string, unknown>): JobSearch {
  const found: JobSearch = {};
  const tab = JOB_TABS.find((one) => one === search.tab);
  if (tab && tab !== "graph") {
    found.tab = tab;
  }
  const node = wordOf(search.node);
  if (node) {
    found.node = node;
  }
  const at = Number(search.at);
  if (search.at !== undefined && Number.isSafeInteger(at) && at >= 0) {
    found.at = at;
  }
  return found;
}

export function compareSearchOf(search: Record<string, unknown>): CompareSearch {
  const found: CompareSearch = {};
  const [left, right] = [wordOf(search.left), wordOf(search.right)];
  if (left) {
    found.left = left;
  }
  if (right) {
    found.right = right;
  }
  return found;
}
