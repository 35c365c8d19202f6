import { expect, test } from "vitest";
import { scheduleSearchOf } from "../schedules/search";
import { deliveriesSearchOf, runsSearchOf } from "./search";

test("filters of runs are kept as far as they make sense", () => {
  expect(runsSearchOf({ workflow: "nightly", state: "failed" })).toEqual({ workflow: "nightly", state: "failed" });
  expect(runsSearchOf({ workflow: "a b", state: "lost" })).toEqual({});
});

test("filters of deliveries are kept as far as they make sense", () => {
  expect(deliveriesSearchOf({ workflow: 42, outcome: "delivered", delivery: "x_1" })).toEqual({
    workflow: "42",
    outcome: "delivered",
    delivery: "x_1",
  });
  expect(deliveriesSearchOf({ outcome: "lost" })).toEqual({});
});

test("a month and a day of the calendar must exist", () => {
  expect(scheduleSearchOf({ month: "2026-05", day: "2026-05-31" })).toEqual({ month: "2026-05", day: "2026-05-31" });
  expect(scheduleSearchOf({ month: "2026-13", day: "soon" })).toEqual({});
});
