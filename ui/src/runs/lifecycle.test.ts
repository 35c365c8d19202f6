import { expect, test } from "vitest";
import { type Attempt, lifecycleOf } from "./lifecycle";

const NOW = Date.parse("2026-05-01T00:01:00Z");

function lifecycle(...states: [string, number][]): Attempt[] {
  const transitions = states.map(([state, second]) => ({
    state,
    at: new Date(NOW - 60_000 + second * 1000).toISOString(),
  }));
  return lifecycleOf({ transitions, state: states.at(-1)?.[0] ?? "pre_run" }, NOW);
}

function describeSteps(attempt: Attempt | undefined): string[] {
  return (attempt?.steps ?? []).map((step) => `${step.state} ${step.progress}`);
}

test("a run without constraints skips their states", () => {
  const [attempt] = lifecycle(
    ["pre_run", 0],
    ["pending", 10],
    ["container_creating", 10],
    ["running", 11],
    ["terminating", 20],
    ["completed", 21],
  );
  expect(describeSteps(attempt)).toEqual([
    "pre_run done",
    "pending done",
    "condition_pending skipped",
    "condition_running skipped",
    "container_creating done",
    "running done",
    "terminating done",
    "completed final",
  ]);
  expect(attempt?.steps.map((step) => step.seconds)).toEqual([10, 0, null, null, 1, 9, 1, null]);
});

test("an active run shows the states to come and the time in its state", () => {
  const [attempt] = lifecycle(["pending", 0], ["container_creating", 0], ["running", 30]);
  expect(describeSteps(attempt).slice(-3)).toEqual([
    "running current",
    "terminating not_reached",
    "completed not_reached",
  ]);
  expect(attempt?.steps.find((step) => step.state === "running")?.seconds).toBe(30);
});

test("a violation shows the action states and the states not reached", () => {
  const [attempt] = lifecycle(
    ["pending", 0],
    ["condition_pending", 0],
    ["condition_running", 0],
    ["action_pending", 1],
    ["action_running", 1],
    ["completed", 2],
  );
  expect(describeSteps(attempt)).toEqual([
    "pre_run skipped",
    "pending done",
    "condition_pending done",
    "condition_running done",
    "action_pending done",
    "action_running done",
    "container_creating not_reached",
    "running not_reached",
    "terminating not_reached",
    "completed final",
  ]);
});

test("only the last attempt has a final state", () => {
  const attempts = lifecycle(
    ["pending", 0],
    ["running", 1],
    ["terminating", 2],
    ["retrying", 2],
    ["pending", 30],
    ["running", 31],
    ["failed", 32],
  );
  expect(attempts.map((attempt) => attempt.number)).toEqual([1, 2]);
  expect(describeSteps(attempts[0]).at(-1)).toBe("retrying done");
  expect(describeSteps(attempts[1])[0]).toBe("pending done");
  expect(describeSteps(attempts[1]).slice(-2)).toEqual(["terminating not_reached", "failed final"]);
});
