// Search parameters of the workflow pages.

import { isId, textParam } from "../lib/search_params";

export const TABS = ["overview", "run", "versions", "aliases", "jobs", "statistics"] as const;
export type Tab = (typeof TABS)[number];

export interface ListSearch {
  search?: string;
}

export interface WorkflowSearch {
  /** The overview by default. */
  tab?: Tab;
  /** A number or an alias; the latest by default. */
  version?: string;
  /** The selected node. */
  node?: string;
  /** The number of jobs in the statistics. */
  jobs?: number;
  /** The versions to compare. */
  left?: number;
  right?: number;
}

export interface EditorSearch {
  /** The workflow to edit; a new one by default. */
  id?: string;
}

export function parseListSearch(search: Record<string, unknown>): ListSearch {
  const text = textParam(search.search).trim();
  return text ? { search: text } : {};
}

export function parseWorkflowSearch(search: Record<string, unknown>): WorkflowSearch {
  const result: WorkflowSearch = {};
  const tab = TABS.find((known) => known === search.tab);
  if (tab && tab !== "overview") {
    result.tab = tab;
  }
  const version = textParam(search.version);
  if (isId(version)) {
    result.version = version;
  }
  const node = textParam(search.node);
  if (node) {
    result.node = node;
  }
  for (const name of ["left", "right", "jobs"] as const) {
    const number = Number(search[name]);
    if (Number.isSafeInteger(number) && number > 0) {
      result[name] = number;
    }
  }
  return result;
}

export function parseEditorSearch(search: Record<string, unknown>): EditorSearch {
  const id = textParam(search.id);
  return isId(id) ? { id } : {};
}
