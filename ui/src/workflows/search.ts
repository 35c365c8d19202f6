// What the addresses of the pages about workflows say.

import { isId, wordOf } from "../lib/search_params";

export const TABS = ["overview", "run", "versions", "aliases", "jobs", "statistics"] as const;
export type Tab = (typeof TABS)[number];

export interface ListSearch {
  search?: string;
}

export interface WorkflowSearch {
  /** Without one, the overview. */
  tab?: Tab;
  /** A number or an alias; without one, the newest. */
  version?: string;
  /** The node whose definition is shown. */
  node?: string;
  /** How many jobs the statistics are of. */
  jobs?: number;
  /** The versions that are compared. */
  left?: number;
  right?: number;
}

export interface EditorSearch {
  /** The workflow that is edited; without one, a new one. */
  id?: string;
}

export function listSearchOf(search: Record<string, unknown>): ListSearch {
  const words = wordOf(search.search).trim();
  return words ? { search: words } : {};
}

export function workflowSearchOf(search: Record<string, unknown>): WorkflowSearch {
  const found: WorkflowSearch = {};
  const tab = TABS.find((one) => one === search.tab);
  if (tab && tab !== "overview") {
    found.tab = tab;
  }
  const version = wordOf(search.version);
  if (isId(version)) {
    found.version = version;
  }
  const node = wordOf(search.node);
  if (node) {
    found.node = node;
  }
  for (const name of ["left", "right", "jobs"] as const) {
    const number = Number(search[name]);
    if (Number.isSafeInteger(number) && number > 0) {
      found[name] = number;
    }
  }
  return found;
}

export function editorSearchOf(search: Record<string, unknown>): EditorSearch {
  const id = wordOf(search.id);
  return isId(id) ? { id } : {};
}
