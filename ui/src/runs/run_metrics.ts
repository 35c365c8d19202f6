// The figures of a run as people read them.

import { count, duration } from "../lib/format";

const SECONDS: [string, string][] = [
  ["total_seconds", "In all"],
  ["pre_run_seconds", "Before its slot"],
  ["constraint_check_seconds", "Checking constraints"],
  ["action_seconds", "Actions on a violation"],
  ["container_creation_seconds", "Until the first task"],
  ["execution_seconds", "Running"],
  ["termination_seconds", "Ending"],
  ["retry_wait_seconds", "Waiting to retry"],
  ["pod_start_seconds", "Slowest container start"],
];
const COUNTS: [string, string][] = [
  ["constraints_checked", "Constraints checked"],
  ["constraints_violated", "Constraints violated"],
  ["actions_executed", "Actions executed"],
  ["actions_failed", "Actions failed"],
  ["api_calls", "Calls for containers"],
  ["exit_code", "Exit code"],
];

/** Names and values; times and counts of nothing are left out, but for those that always matter. */
export function figuresOf(metrics: Record<string, unknown>): [string, string][] {
  const figures: [string, string][] = [];
  for (const [key, name] of SECONDS) {
    const seconds = metrics[key];
    if (typeof seconds === "number" && (seconds > 0 || key === "total_seconds")) {
      figures.push([name, duration(seconds)]);
    }
  }
  for (const [key, name] of COUNTS) {
    const number = metrics[key];
    if (typeof number === "number" && (number > 0 || ALWAYS.includes(key))) {
      figures.push([name, count(number)]);
    }
  }
  const { retry_attempt: retries, max_retries: most } = metrics;
  if (typeof retries === "number" && typeof most === "number" && most > 0) {
    figures.push(["Retries", `${retries} of at most ${most}`]);
  }
  return figures;
}

const ALWAYS = ["constraints_checked", "actions_executed"];
