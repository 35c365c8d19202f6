import { expect, test } from "vitest";
import { parseScheduleSearch } from "../schedules/search";
import { parseDeliveriesSearch, parseRunsSearch } from "./search";

test("invalid run filters are omitted", () => {
  expect(parseRunsSearch({ workflow: "nightly", state: "failed" })).toEqual({ workflow: "nightly", state: "failed" });
  expect(parseRunsSearch({ workflow: "a b", state: "lost" })).toEqual({});
});

test("invalid delivery filters are omitted", () => {
  expect(parseDeliveriesSearch({ workflow: 42, outcome: "delivered", delivery: "x_1" })).toEqual({
    workflow: "42",
    outcome: "delivered",
    delivery: "x_1",
  });
  expect(parseDeliveriesSearch({ outcome: "lost" })).toEqual({});
});

test("invalid months and days are omitted", () => {
  expect(parseScheduleSearch({ month: "2026-05", day: "2026-05-31" })).toEqual({ month: "2026-05", day: "2026-05-31" });
  expect(parseScheduleSearch({ month: "2026-13", day: "soon" })).toEqual({});
});
