// Names and formats the metrics of a run.

import { formatCount, formatDuration } from "../lib/format";

const SECONDS: [string, string][] = [
  ["total_seconds", "Total"],
  ["pre_run_seconds", "Before slot"],
  ["constraint_check_seconds", "Constraint checks"],
  ["action_seconds", "Actions"],
  ["container_creation_seconds", "Start of first task"],
  ["execution_seconds", "Execution"],
  ["termination_seconds", "Termination"],
  ["retry_wait_seconds", "Retry wait"],
  ["pod_start_seconds", "Slowest pod start"],
];
const COUNTS: [string, string][] = [
  ["constraints_checked", "Constraints checked"],
  ["constraints_violated", "Constraints violated"],
  ["actions_executed", "Actions executed"],
  ["actions_failed", "Actions failed"],
  ["api_calls", "Kubernetes API calls"],
  ["exit_code", "Exit code"],
];

/** Names and values. Zero values are omitted, except those that are always shown. */
export function runMetrics(metrics: Record<string, unknown>): [string, string][] {
  const result: [string, string][] = [];
  for (const [key, name] of SECONDS) {
    const seconds = metrics[key];
    if (typeof seconds === "number" && (seconds > 0 || key === "total_seconds")) {
      result.push([name, formatDuration(seconds)]);
    }
  }
  for (const [key, name] of COUNTS) {
    const number = metrics[key];
    if (typeof number === "number" && (number > 0 || ALWAYS_SHOWN.includes(key))) {
      result.push([name, formatCount(number)]);
    }
  }
  const { retry_attempt: retries, max_retries: retriesMax } = metrics;
  if (typeof retries === "number" && typeof retriesMax === "number" && retriesMax > 0) {
    result.push(["Retries", `${retries} of ${retriesMax}`]);
  }
  return result;
}

const ALWAYS_SHOWN = ["constraints_checked", "actions_executed"];
