import { expect, test } from "vitest";
import { outcomesOf, sharesOf } from "./recent_jobs";
import type { RecentJob } from "./types";

const NOW = Date.parse("2026-05-01T00:01:00Z");

function job(status: RecentJob["status"], second: number | null): RecentJob {
  return {
    job_id: status,
    status,
    created_at: "2026-05-01T00:00:00Z",
    started_at: "2026-05-01T00:00:00Z",
    completed_at: second === null ? null : new Date(NOW - 60_000 + second * 1000).toISOString(),
  };
}

test("jobs under way do not count as ended", () => {
  expect(outcomesOf([job("completed", 1), job("failed", 2), job("cancelled", 3), job("running", null)])).toEqual({
    ended: 3,
    completed: 1,
  });
});

test("times are shares of the longest, one under way counts up to now", () => {
  expect(sharesOf([job("completed", 15), job("running", null), job("failed", 30)], NOW)).toEqual([0.25, 1, 0.5]);
});

test("jobs that took no time have no share", () => {
  expect(sharesOf([job("completed", 0)], NOW)).toEqual([0]);
});
