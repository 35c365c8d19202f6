import { expect, test } from "vitest";
import type { Event } from "../../api/types";
import { playedUntil } from "./time_position";

const events = [0, 10, 10, 400].map((ms) => ({ timestamp: new Date(ms).toISOString() }) as Event);

test("playing reaches every event whose time has come", () => {
  expect(playedUntil(events, 0, 10)).toBe(3);
  expect(playedUntil(events, 3, 399)).toBe(3);
  expect(playedUntil(events, 3, 400)).toBe(4);
});

test("playing never goes back", () => {
  expect(playedUntil(events, 2, 0)).toBe(2);
});
