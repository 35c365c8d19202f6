// The runs of a schedule: the newest page is refreshed, older pages are loaded once.

import type { Page, Run } from "../api/types";

export interface RunHistory {
  /** Newest slot first. */
  runs: Run[];
  /** The cursor of the next older page; null if there is none. */
  olderCursor: string | null;
}

/** Merge a refreshed newest page into the history. */
export function mergeNewest(history: RunHistory | undefined, page: Page<Run>): RunHistory {
  const knownIds = new Set(history?.runs.map((run) => run.run_id));
  const isContiguous = page.next_cursor === null || page.items.some((run) => knownIds.has(run.run_id));
  if (history === undefined || !isContiguous) {
    // There may be a gap between the page and the history.
    return { runs: page.items, olderCursor: page.next_cursor };
  }
  return { runs: mergeRuns(page.items, history.runs), olderCursor: history.olderCursor };
}

export function appendOlder(history: RunHistory | undefined, cursor: string, page: Page<Run>): RunHistory | undefined {
  return history?.olderCursor === cursor
    ? { runs: mergeRuns(history.runs, page.items), olderCursor: page.next_cursor }
    : history;
}

/** Merge two lists of runs. Runs of the first list are newer versions. */
function mergeRuns(first: Run[], second: Run[]): Run[] {
  const firstIds = new Set(first.map((run) => run.run_id));
  const all = [...first, ...second.filter((run) => !firstIds.has(run.run_id))];
  return all.sort((a, b) => Date.parse(b.scheduled_at) - Date.parse(a.scheduled_at));
}
