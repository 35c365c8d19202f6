import { expect, test } from "vitest";
import type { Run } from "../api/types";
import {
  asLookedFor,
  besideClock,
  clockInWords,
  dayOf,
  monthAfter,
  monthName,
  outcomeCounts,
  outcomeOf,
  slotsByDay,
  timeOf,
  weeksOf,
} from "./calendar";

function run(scheduledAt: string, state: string, skipped = false): Run {
  return { run_id: `nightly:${scheduledAt}`, scheduled_at: scheduledAt, state, skipped } as Run;
}

test("a month is shown in whole weeks from Monday on", () => {
  const weeks = weeksOf("2026-05");
  expect(weeks.map((week) => week.length)).toEqual([7, 7, 7, 7, 7]);
  expect(weeks[0]?.[0]).toEqual({ date: "2026-04-27", number: 27, inMonth: false });
  expect(weeks[0]?.[4]).toEqual({ date: "2026-05-01", number: 1, inMonth: true });
  expect(weeks.at(-1)?.at(-1)?.date).toBe("2026-05-31");
});

test("a month that fills four weeks has four, one that begins on Sunday has six", () => {
  expect(weeksOf("2027-02")).toHaveLength(4);
  expect(weeksOf("2026-11")).toHaveLength(6);
});

test("a slot belongs to the day that the schedule's clock shows", () => {
  expect(dayOf("2026-05-01T23:30:00Z", "Europe/Paris")).toBe("2026-05-02");
  expect(dayOf("2026-05-01T02:30:00Z", "America/New_York")).toBe("2026-04-30");
  expect(timeOf("2026-05-01T00:30:00Z", "Europe/Paris")).toBe("02:30");
  expect(timeOf("2026-05-01T00:00:10Z", "UTC")).toBe("00:00:10");
});

test("a zone that nobody knows is read as UTC", () => {
  expect(dayOf("2026-05-01T23:30:00Z", "Nowhere/Land")).toBe("2026-05-01");
});

test("a slot with a run is not to come any more", () => {
  const days = slotsByDay(
    [run("2026-05-01T00:30:00.000000Z", "running"), run("2026-04-30T00:30:00.000000Z", "completed")],
    ["2026-05-01T00:30:00Z", "2026-05-02T00:30:00Z"],
    "UTC",
  );
  expect([...days].map(([day, slots]) => [day, slots.map((slot) => slot.outcome)])).toEqual([
    ["2026-04-30", ["completed"]],
    ["2026-05-01", ["running"]],
    ["2026-05-02", ["coming"]],
  ]);
});

test.each([
  ["completed", false, "completed"],
  ["completed", true, "skipped"],
  ["failed", false, "failed"],
  ["orphaned", false, "failed"],
  ["cancelled", false, "cancelled"],
  ["pre_run", false, "coming"],
  ["condition_running", false, "running"],
  ["retrying", false, "running"],
])("a run that is %s (skipped: %s) counts as %s", (state, skipped, outcome) => {
  expect(outcomeOf({ state, skipped })).toBe(outcome);
});

test("outcomes are counted in a lasting order", () => {
  const slots = [
    ...slotsByDay(
      [
        run("2026-05-01T01:00:00Z", "failed"),
        run("2026-05-01T02:00:00Z", "completed"),
        run("2026-05-01T03:00:00Z", "failed"),
      ],
      [],
      "UTC",
    ).values(),
  ].flat();
  expect(outcomeCounts(slots)).toEqual([
    ["completed", 1],
    ["failed", 2],
  ]);
});

test("months follow each other over the end of a year", () => {
  expect(monthAfter("2026-12", 1)).toBe("2027-01");
  expect(monthAfter("2026-01", -1)).toBe("2025-12");
  expect(monthName("2026-05")).toBe("May 2026");
});

test("a clock is told with its weekday, and with seconds where there are any", () => {
  expect(clockInWords("2026-05-02T02:30:00+02:00")).toBe("Sat 2 May 02:30");
  expect(clockInWords("2026-05-02T02:30:10")).toBe("Sat 2 May 02:30:10");
});

test("of a day, the newest that has begun comes first, and what is to come follows", () => {
  const runs = [run("2026-05-01T01:00:00Z", "failed"), run("2026-05-01T02:00:00Z", "completed")];
  const slots = [...slotsByDay(runs, ["2026-05-01T03:00:00Z", "2026-05-01T04:00:00Z"], "UTC").values()].flat();
  expect(asLookedFor(slots).map((slot) => slot.at.slice(11, 13))).toEqual(["02", "01", "03", "04"]);
});

test("a clock beside another tells the day only where it differs", () => {
  expect(besideClock("2026-05-02T01:30:00", "2026-05-02T02:30:00+02:00")).toBe("01:30");
  expect(besideClock("2026-05-01T23:30:00", "2026-05-02T01:30:00+02:00")).toBe("Fri 1 May 23:30");
});
