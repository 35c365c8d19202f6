import { expect, test } from "vitest";
import { figuresOf } from "./run_metrics";

test("a run that has not ended has no figures", () => {
  expect(figuresOf({})).toEqual([]);
});

test("what took no time is left out, and what matters always is not", () => {
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
  expect(figuresOf(metrics)).toEqual([
    ["In all", "12.5 s"],
    ["Running", "12.0 s"],
    ["Constraints checked", "2"],
    ["Actions executed", "0"],
    ["Retries", "1 of at most 2"],
  ]);
});
