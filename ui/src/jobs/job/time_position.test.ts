import { expect, test } from "vitest";
import type { Event } from "../../api/types";
import { countPlayed } from "./time_position";

const events = [0, 10, 10, 400].map((ms) => ({ timestamp: new Date(ms).toISOString() }) as Event);

test("all events up to the time are counted", () => {
  expect(countPlayed(events, 0, 10)).toBe(3);
  expect(countPlayed(events, 3, 399)).toBe(3);
  expect(countPlayed(events, 3, 400)).toBe(4);
});

test("the count never decreases", () => {
  expect(countPlayed(events, 2, 0)).toBe(2);
});
