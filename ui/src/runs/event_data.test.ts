import { expect, test } from "vitest";
import { describeEventData } from "./event_data";

test("the data of an event is named and empty values are left out", () => {
  expect(describeEventData({ state: "failed", previous_state: "running", reason: null })).toBe(
    "state: failed, previous state: running",
  );
});

test("a long list is shortened", () => {
  const slots = Array.from({ length: 12 }, (_, index) => `t${index}`);

  expect(describeEventData({ slots })).toBe("slots: t0 t1 t2 t3 t4 t5 t6 t7 t8 t9 and 2 more");
});
