import { expect, test } from "vitest";
import { describeEvent } from "./event_data";

test("a change of state shows both states, and the attempt as the run page counts it", () => {
  const data = { state: "failed", previous_state: "action_running", attempt: 1, reason: "too slow" };

  expect(describeEvent({ event_type: "run_state_changed", data })).toBe(
    "Action running → Failed, attempt: 2, reason: too slow",
  );
});

test("the first attempt is not mentioned", () => {
  const data = { state: "pending", previous_state: "pre_run", attempt: 0 };

  expect(describeEvent({ event_type: "run_state_changed", data })).toBe("Pre-run → Pending");
});

test("the data of other events is named and empty values are left out", () => {
  const data = { action: "skip", on: "on_constraint_violation", error: null, is_catch_up: false };

  expect(describeEvent({ event_type: "action_completed", data })).toBe(
    "action: skip, on: on_constraint_violation, is catch up: no",
  );
});

test("a long list is shortened", () => {
  const slots = Array.from({ length: 12 }, (_, index) => `t${index}`);

  expect(describeEvent({ event_type: "slots_missed", data: { slots } })).toBe(
    "slots: t0 t1 t2 t3 t4 t5 t6 t7 t8 t9 and 2 more",
  );
});
