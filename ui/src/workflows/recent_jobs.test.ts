import { expect, test } from "vitest";
import { countFinished, relativeDurations } from "./recent_jobs";
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

test("active jobs are not finished", () => {
  expect(countFinished([job("completed", 1), job("failed", 2), job("cancelled", 3), job("running", null)])).toEqual({
    finished: 3,
    completed: 1,
  });
});

test("durations are relative to the longest, active jobs count until now", () => {
  expect(relativeDurations([job("completed", 15), job("running", null), job("failed", 30)], NOW)).toEqual([
    0.25, 1, 0.5,
  ]);
});

test("jobs without duration are zero", () => {
  expect(relativeDurations([job("completed", 0)], NOW)).toEqual([0]);
});
