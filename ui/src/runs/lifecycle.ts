// A run's life as steps, a row for each attempt: what it went through, for how long, and what it did not reach.

import type { Run } from "../api/types";
import { RUN_STATES } from "./search";

export interface Step {
  state: string;
  /** When it was entered; null when it was not. */
  at: string | null;
  /** How long it lasted; null for final states and those not entered. */
  seconds: number | null;
  mark: "left" | "current" | "end" | "passed_over" | "not_reached";
}

export interface Attempt {
  number: number;
  steps: Step[];
}

const FINAL: readonly string[] = ["completed", "failed", "cancelled", "orphaned"];

/** The way of a run that nothing hinders; what a violation or another attempt adds is shown when it happened. */
const WAY: readonly string[] = RUN_STATES.filter((state) => !FINAL.includes(state));
const DETOURS = ["action_pending", "action_running", "retrying"];

export const ABOUT: Record<string, string> = {
  pre_run: "Its moment has not come",
  pending: "Due, and taken up",
  condition_pending: "Its constraints are to be checked",
  condition_running: "Constraints and the hook before the run",
  action_pending: "A constraint does not hold",
  action_running: "What is done about it, or a wait",
  container_creating: "Until its first task has started",
  running: "The job runs",
  terminating: "The hook after the run, and actions",
  retrying: "Until the next attempt",
  completed: "Ended well",
  failed: "Ended badly",
  cancelled: "Stopped",
  orphaned: "Nobody served it for too long",
};

export function isFinal(state: string): boolean {
  return FINAL.includes(state);
}

export function lifecycleOf(run: Pick<Run, "transitions" | "state">, now: number): Attempt[] {
  const attempts: Step[][] = [[]];
  run.transitions.forEach((transition, place) => {
    const following = run.transitions[place + 1];
    if (transition.state === "pending" && run.transitions[place - 1]?.state === "retrying") {
      attempts.push([]);
    }
    const ended = isFinal(transition.state);
    const until = following ? Date.parse(following.at) : now;
    attempts.at(-1)?.push({
      state: transition.state,
      at: transition.at,
      seconds: ended ? null : Math.max(0, (until - Date.parse(transition.at)) / 1000),
      mark: ended ? "end" : following ? "left" : "current",
    });
  });
  return attempts.map((steps, place) => ({
    number: place + 1,
    steps: completed(steps, place, place === attempts.length - 1),
  }));
}

/** The steps of an attempt with those that it passed over or did not reach. */
function completed(steps: Step[], place: number, isLast: boolean): Step[] {
  const way = WAY.filter((state) => place === 0 || state !== "pre_run");
  const furthest = Math.max(-1, ...steps.map((step) => way.indexOf(step.state)));
  const shown: Step[] = [];
  way.forEach((state, order) => {
    const step = steps.find((one) => one.state === state);
    if (step) {
      shown.push(step);
    } else if (!DETOURS.includes(state)) {
      shown.push({ state, at: null, seconds: null, mark: order < furthest ? "passed_over" : "not_reached" });
    }
  });
  const end = steps.find((step) => isFinal(step.state));
  if (end) {
    shown.push(end);
  } else if (isLast) {
    shown.push({ state: "completed", at: null, seconds: null, mark: "not_reached" });
  }
  return shown;
}
