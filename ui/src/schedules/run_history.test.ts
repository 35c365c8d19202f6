import { expect, test } from "vitest";
import type { Run } from "../api/types";
import { appendOlder, mergeNewest } from "./run_history";

function run(minute: number, state = "completed"): Run {
  const at = `2026-05-01T00:${String(minute).padStart(2, "0")}:00Z`;
  return { run_id: `r${minute}`, scheduled_at: at, state } as Run;
}

function page(next: string | null, ...items: Run[]) {
  return { items, next_cursor: next };
}

test("the first page starts the history", () => {
  expect(mergeNewest(undefined, page("c1", run(2), run(1)))).toEqual({ runs: [run(2), run(1)], olderCursor: "c1" });
});

test("a refreshed page adds and updates runs and keeps older ones", () => {
  const history = { runs: [run(2, "running"), run(1), run(0)], olderCursor: "c0" };
  const { runs, olderCursor } = mergeNewest(history, page("c1", run(3), run(2)));
  expect(runs.map(({ run_id, state }) => `${run_id} ${state}`)).toEqual([
    "r3 completed",
    "r2 completed",
    "r1 completed",
    "r0 completed",
  ]);
  expect(olderCursor).toBe("c0");
});

test("a page with a gap replaces the history", () => {
  const history = { runs: [run(1)], olderCursor: null };
  expect(mergeNewest(history, page("c8", run(9), run(8)))).toEqual({ runs: [run(9), run(8)], olderCursor: "c8" });
});

test("older pages are appended once", () => {
  const history = { runs: [run(3), run(2)], olderCursor: "c2" };
  const extended = appendOlder(history, "c2", page(null, run(1)));
  expect(extended).toEqual({ runs: [run(3), run(2), run(1)], olderCursor: null });
  expect(appendOlder(extended, "c2", page(null, run(1)))).toBe(extended);
});
