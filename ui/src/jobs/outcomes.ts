// Statuses and words for the outcomes of attempts.

import { statusText } from "../components/status";
import type { Outcome } from "./model/state";

/** The status to show for an outcome; null for an active attempt. */
export function outcomeStatus(outcome: Outcome | null): "completed" | "failed" | "cancelled" | null {
  switch (outcome) {
    case "retrying":
      return "failed";
    case "called":
      return "completed";
    default:
      return outcome;
  }
}

export function outcomeText(outcome: Outcome | null): string {
  switch (outcome) {
    case null:
      return "Running";
    case "retrying":
      return "Failed, retried";
    case "called":
      return "Completed, called again";
    default:
      return statusText(outcome);
  }
}
