// The lifecycle of a run as steps, for each attempt: states entered, their durations, and states not reached.

import type { Run } from "../api/types";
import { RUN_STATES } from "./search";

export interface Step {
  state: string;
  /** When the state was entered; null if it was not. */
  at: string | null;
  /** The time in the state; null for final states and those not entered. */
  seconds: number | null;
  progress: "done" | "current" | "final" | "skipped" | "not_reached";
}

export interface Attempt {
  number: number;
  steps: Step[];
}

const FINAL: readonly string[] = ["completed", "failed", "cancelled", "orphaned"];

/** The usual path of a run. Optional states are shown only if they were entered. */
const PATH: readonly string[] = RUN_STATES.filter((state) => !FINAL.includes(state));
const OPTIONAL_STATES = ["action_pending", "action_running", "retrying"];

export const STATE_DESCRIPTIONS: Record<string, string> = {
  pre_run: "Before the slot",
  pending: "Due",
  condition_pending: "Waiting for the check of the constraints",
  condition_running: "Checking the constraints and calling the pre-run hook",
  action_pending: "Constraint violated",
  action_running: "Running the action for the violation, or waiting",
  container_creating: "Starting the first task",
  running: "Job running",
  terminating: "Calling the post-run hook and running the actions",
  retrying: "Waiting for the next attempt",
  completed: "Completed",
  failed: "Failed",
  cancelled: "Cancelled",
  orphaned: "No engine served the run for too long",
};

export function isFinal(state: string): boolean {
  return FINAL.includes(state);
}

export function lifecycleOf(run: Pick<Run, "transitions" | "state">, now: number): Attempt[] {
  const attempts: Step[][] = [[]];
  run.transitions.forEach((transition, index) => {
    const following = run.transitions[index + 1];
    if (transition.state === "pending" && run.transitions[index - 1]?.state === "retrying") {
      attempts.push([]);
    }
    const until = following ? Date.parse(following.at) : now;
    attempts.at(-1)?.push({
      state: transition.state,
      at: transition.at,
      seconds: isFinal(transition.state) ? null : Math.max(0, (until - Date.parse(transition.at)) / 1000),
      progress: progressOf(transition.state, following !== undefined),
    });
  });
  return attempts.map((steps, index) => ({
    number: index + 1,
    steps: withMissingSteps(steps, index, index === attempts.length - 1),
  }));
}

function progressOf(state: string, hasNext: boolean): Step["progress"] {
  if (isFinal(state)) {
    return "final";
  }
  return hasNext ? "done" : "current";
}

/** Add the steps that an attempt skipped or did not reach. */
function withMissingSteps(steps: Step[], attempt: number, isLast: boolean): Step[] {
  const path = PATH.filter((state) => attempt === 0 || state !== "pre_run");
  const furthest = Math.max(-1, ...steps.map((step) => path.indexOf(step.state)));
  const result: Step[] = [];
  path.forEach((state, order) => {
    const step = steps.find((entered) => entered.state === state);
    if (step) {
      result.push(step);
    } else if (!OPTIONAL_STATES.includes(state)) {
      result.push({ state, at: null, seconds: null, progress: order < furthest ? "skipped" : "not_reached" });
    }
  });
  const end = steps.find((step) => isFinal(step.state));
  if (end) {
    result.push(end);
  } else if (isLast) {
    result.push({ state: "completed", at: null, seconds: null, progress: "not_reached" });
  }
  return result;
}
