// The runs of a schedule as they are gathered: the newest ones again and again, older ones page by page, once.

import type { Page, Run } from "../api/types";

export interface Gathered {
  /** Newest slot first. */
  runs: Run[];
  /** Where the older ones begin; null when there are none. */
  olderCursor: string | null;
}

/** What is known, with the newest page read again. */
export function withNewest(known: Gathered | undefined, page: Page<Run>): Gathered {
  const seen = new Set(known?.runs.map((run) => run.run_id));
  const joins = page.next_cursor === null || page.items.some((run) => seen.has(run.run_id));
  if (known === undefined || !joins) {
    // So much happened meanwhile that there may be a gap.
    return { runs: page.items, olderCursor: page.next_cursor };
  }
  return { runs: united(page.items, known.runs), olderCursor: known.olderCursor };
}

export function withOlder(known: Gathered | undefined, cursor: string, page: Page<Run>): Gathered | undefined {
  return known?.olderCursor === cursor
    ? { runs: united(known.runs, page.items), olderCursor: page.next_cursor }
    : known;
}

/** The runs of both; those of the first are the fresher ones. */
function united(first: Run[], second: Run[]): Run[] {
  const fresh = new Set(first.map((run) => run.run_id));
  const all = [...first, ...second.filter((run) => !fresh.has(run.run_id))];
  return all.sort((a, b) => Date.parse(b.scheduled_at) - Date.parse(a.scheduled_at));
}
