import { expect, test } from "vitest";
import { runMetrics } from "./run_metrics";

test("an active run has no metrics", () => {
  expect(runMetrics({})).toEqual([]);
});

test("zero values are omitted, except those that are always shown", () => {
  const metrics = {
    total_seconds: 12.5,
    execution_seconds: 12,
    action_seconds: 0,
    constraints_checked: 2,
    constraints_violated: 0,
    actions_executed: 0,
    actions_failed: 0,
    retry_attempt: 1,
    max_retries: 2,
    exit_code: null,
  };
  expect(runMetrics(metrics)).toEqual([
    ["Total", "12.5 s"],
    ["Execution", "12.0 s"],
    ["Constraints checked", "2"],
    ["Actions executed", "0"],
    ["Retries", "1 of 2"],
  ]);
});
