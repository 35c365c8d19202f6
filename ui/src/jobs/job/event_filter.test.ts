import { expect, test } from "vitest";
import type { EventType } from "../../api/event_types";
import type { Event } from "../../api/types";
import { type EventFilter, eventClass, eventMatcher, eventSummary, eventWords } from "./event_filter";

const NO_FILTER: EventFilter = { type: "", node: "", text: "" };

function event(change: Partial<Event>): Event {
  const rest = { event_id: "j:1", seq: 1, job_id: "j", index: null, timestamp: "2026-01-01T00:00:00Z" };
  const more = { meta: null, context: null, parent_event_id: null, data: {} };
  return { ...rest, ...more, event_type: "node_started", node_id: "join", ...change };
}

test("an empty filter matches everything", () => {
  expect(eventMatcher(NO_FILTER)(event({ node_id: null }))).toBe(true);
});

test("type and node must both match", () => {
  const matches = eventMatcher({ ...NO_FILTER, type: "node_started", node: "join" });
  expect(matches(event({}))).toBe(true);
  expect(matches(event({ node_id: "left" }))).toBe(false);
  expect(matches(event({ event_type: "node_failed" }))).toBe(false);
});

test("the search ignores case and covers the data and the name of the event", () => {
  const declined = event({ data: { error: { message: "the card was declined" } } });
  expect(eventMatcher({ ...NO_FILTER, text: "DECLINED " })(declined)).toBe(true);
  expect(eventMatcher({ ...NO_FILTER, text: "DECLINED " })(event({}))).toBe(false);
  expect(eventMatcher({ ...NO_FILTER, text: "node started" })(event({}))).toBe(true);
});

test("the summary of a retry has the error, the delay and the attempt", () => {
  const data = { attempt_number: 2, delay_seconds: 0.654, error: { message: "the server is busy" } };
  expect(eventSummary(event({ data }))).toBe("the server is busy · retry in 654 ms · attempt 2");
});

test("a further call after a success is not a retry", () => {
  expect(eventSummary(event({ data: { calls: 2, delay_seconds: 0 } }))).toBe("call 2 succeeded, calling again");
  expect(eventSummary(event({ data: { calls: 2, delay_seconds: 5 } }))).toBe(
    "call 2 succeeded, calling again in 5.00 s",
  );
});

test("the end of a loop has its failures and the pages that were left", () => {
  const data = { total_iterations: 3, successful: 2, failed: 1, skipped: 0, exhausted: 2 };
  expect(eventSummary(event({ data }))).toBe("3 iterations · 1 failed · 2 with more pages left");
});

test("the end of the calls has their number", () => {
  const data = { total_attempts: 1, is_exhausted: true };
  expect(eventSummary(event({ data }))).toBe("1 call · more pages left");
});

test("an unknown event type is shown as it is", () => {
  expect(eventWords("node_painted" as EventType)).toBe("node_painted");
  expect(eventWords("node_completed")).toBe("Node completed");
});

test("an event has the color of its status, and a neutral one without a status", () => {
  expect(eventClass("node_completed")).toBe("text-completed");
  expect(eventClass("job_retried")).toBe("text-running");
  expect(eventClass("worker_lost")).toBe("text-failed");
  expect(eventClass("result_ignored")).toBe("text-muted");
  expect(eventClass("node_painted" as EventType)).toBe("text-muted");
});
