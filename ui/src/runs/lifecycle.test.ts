import { expect, test } from "vitest";
import { type Attempt, lifecycleOf } from "./lifecycle";

const NOW = Date.parse("2026-05-01T00:01:00Z");

function life(...states: [string, number][]): Attempt[] {
  const transitions = states.map(([state, second]) => ({
    state,
    at: new Date(NOW - 60_000 + second * 1000).toISOString(),
  }));
  return lifecycleOf({ transitions, state: states.at(-1)?.[0] ?? "pre_run" }, NOW);
}

function told(attempt: Attempt | undefined): string[] {
  return (attempt?.steps ?? []).map((step) => `${step.state} ${step.mark}`);
}

test("a run that nothing hindered went the whole way, past what was not to be checked", () => {
  const [attempt] = life(
    ["pre_run", 0],
    ["pending", 10],
    ["container_creating", 10],
    ["running", 11],
    ["terminating", 20],
    ["completed", 21],
  );
  expect(told(attempt)).toEqual([
    "pre_run left",
    "pending left",
    "condition_pending passed_over",
    "condition_running passed_over",
    "container_creating left",
    "running left",
    "terminating left",
    "completed end",
  ]);
  expect(attempt?.steps.map((step) => step.seconds)).toEqual([10, 0, null, null, 1, 9, 1, null]);
});

test("a run under way shows what is before it, and counts the time in its state", () => {
  const [attempt] = life(["pending", 0], ["container_creating", 0], ["running", 30]);
  expect(told(attempt).slice(-3)).toEqual(["running current", "terminating not_reached", "completed not_reached"]);
  expect(attempt?.steps.find((step) => step.state === "running")?.seconds).toBe(30);
});

test("a violation shows its detour, and what a skipped run did not reach", () => {
  const [attempt] = life(
    ["pending", 0],
    ["condition_pending", 0],
    ["condition_running", 0],
    ["action_pending", 1],
    ["action_running", 1],
    ["completed", 2],
  );
  expect(told(attempt)).toEqual([
    "pre_run passed_over",
    "pending left",
    "condition_pending left",
    "condition_running left",
    "action_pending left",
    "action_running left",
    "container_creating not_reached",
    "running not_reached",
    "terminating not_reached",
    "completed end",
  ]);
});

test("every attempt is a row, and only the last one has an end", () => {
  const attempts = life(
    ["pending", 0],
    ["running", 1],
    ["terminating", 2],
    ["retrying", 2],
    ["pending", 30],
    ["running", 31],
    ["failed", 32],
  );
  expect(attempts.map((attempt) => attempt.number)).toEqual([1, 2]);
  expect(told(attempts[0]).at(-1)).toBe("retrying left");
  expect(told(attempts[1])[0]).toBe("pending left");
  expect(told(attempts[1]).slice(-2)).toEqual(["terminating not_reached", "failed end"]);
});
