import { expect, test } from "vitest";
import type { Run } from "../api/types";
import { withNewest, withOlder } from "./run_history";

function run(minute: number, state = "completed"): Run {
  const at = `2026-05-01T00:${String(minute).padStart(2, "0")}:00Z`;
  return { run_id: `r${minute}`, scheduled_at: at, state } as Run;
}

function page(next: string | null, ...items: Run[]) {
  return { items, next_cursor: next };
}

test("the first page is all that is known", () => {
  expect(withNewest(undefined, page("c1", run(2), run(1)))).toEqual({ runs: [run(2), run(1)], olderCursor: "c1" });
});

test("a newer page brings what is new and what changed, and older ones stay", () => {
  const known = { runs: [run(2, "running"), run(1), run(0)], olderCursor: "c0" };
  const { runs, olderCursor } = withNewest(known, page("c1", run(3), run(2)));
  expect(runs.map((one) => `${one.run_id} ${one.state}`)).toEqual([
    "r3 completed",
    "r2 completed",
    "r1 completed",
    "r0 completed",
  ]);
  expect(olderCursor).toBe("c0");
});

test("a page that does not join what is known begins anew", () => {
  const known = { runs: [run(1)], olderCursor: null };
  expect(withNewest(known, page("c8", run(9), run(8)))).toEqual({ runs: [run(9), run(8)], olderCursor: "c8" });
});

test("older pages are added at the end, once", () => {
  const known = { runs: [run(3), run(2)], olderCursor: "c2" };
  const more = withOlder(known, "c2", page(null, run(1)));
  expect(more).toEqual({ runs: [run(3), run(2), run(1)], olderCursor: null });
  expect(withOlder(more, "c2", page(null, run(1)))).toBe(more);
});
