import { expect, test } from "vitest";
import { outcomeStatus, outcomeText } from "./outcomes";

test.each([
  [null, null, "Running"],
  ["completed", "completed", "Completed"],
  ["failed", "failed", "Failed"],
  ["retrying", "failed", "Failed, retried"],
  ["called", "completed", "Completed, called again"],
  ["cancelled", "cancelled", "Cancelled"],
] as const)("an attempt with the outcome %s has the status %s and the text %s", (outcome, status, text) => {
  expect([outcomeStatus(outcome), outcomeText(outcome)]).toEqual([status, text]);
});
