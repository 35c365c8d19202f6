import { expect, test } from "vitest";
import type { Event } from "../../api/types";
import { eventTest, summaryOf } from "./event_filter";

const NONE = { type: "", node: "", text: "" };

function event(change: Partial<Event>): Event {
  const rest = { event_id: "j:1", seq: 1, job_id: "j", index: null, timestamp: "2026-01-01T00:00:00Z" };
  const more = { meta: null, context: null, parent_event_id: null, data: {} };
  return { ...rest, ...more, event_type: "node_started", node_id: "join", ...change };
}

test("an empty filter passes everything", () => {
  expect(eventTest(NONE)(event({ node_id: null }))).toBe(true);
});

test("type and node must both fit", () => {
  const passes = eventTest({ ...NONE, type: "node_started", node: "join" });
  expect(passes(event({}))).toBe(true);
  expect(passes(event({ node_id: "left" }))).toBe(false);
  expect(passes(event({ event_type: "node_failed" }))).toBe(false);
});

test("text is found in what an event tells, whatever its case", () => {
  const passes = eventTest({ ...NONE, text: "DECLINED " });
  expect(passes(event({ data: { error: { message: "the card was declined" } } }))).toBe(true);
  expect(passes(event({}))).toBe(false);
});

test("a retry says why and when it goes on", () => {
  const data = { attempt_number: 2, delay_seconds: 0.654, error: { message: "the server is busy" } };
  expect(summaryOf(event({ data }))).toBe("the server is busy · again in 0.65 s · attempt 2");
});
