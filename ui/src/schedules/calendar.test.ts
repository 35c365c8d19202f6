import { expect, test } from "vitest";
import type { Run } from "../api/types";
import {
  addMonths,
  countOutcomes,
  dayOf,
  formatLocalTime,
  formatLocalTimeBeside,
  formatSlot,
  monthName,
  outcomeOf,
  slotsByDay,
  sortForDisplay,
  timeOf,
  weeksOf,
} from "./calendar";

const NOW = new Date("2026-05-01T12:00:00Z");

function run(scheduledAt: string, state: string, skipped = false): Run {
  return { run_id: `nightly:${scheduledAt}`, scheduled_at: scheduledAt, state, skipped } as Run;
}

test("a month has whole weeks from Monday", () => {
  const weeks = weeksOf("2026-05");
  expect(weeks.map((week) => week.length)).toEqual([7, 7, 7, 7, 7]);
  expect(weeks[0]?.[0]).toEqual({ date: "2026-04-27", number: 27, isInMonth: false });
  expect(weeks[0]?.[4]).toEqual({ date: "2026-05-01", number: 1, isInMonth: true });
  expect(weeks.at(-1)?.at(-1)?.date).toBe("2026-05-31");
});

test("a month has four to six weeks", () => {
  expect(weeksOf("2027-02")).toHaveLength(4);
  expect(weeksOf("2026-11")).toHaveLength(6);
});

test("a slot belongs to the day in the time zone of the schedule", () => {
  expect(dayOf("2026-05-01T23:30:00Z", "Europe/Paris")).toBe("2026-05-02");
  expect(dayOf("2026-05-01T02:30:00Z", "America/New_York")).toBe("2026-04-30");
  expect(timeOf("2026-05-01T00:30:00Z", "Europe/Paris")).toBe("02:30");
  expect(timeOf("2026-05-01T00:00:10Z", "UTC")).toBe("00:00:10");
});

test("an unknown time zone is treated as UTC", () => {
  expect(dayOf("2026-05-01T23:30:00Z", "Nowhere/Land")).toBe("2026-05-01");
});

test("a slot with a run is not upcoming", () => {
  const days = slotsByDay(
    [run("2026-05-01T00:30:00.000000Z", "running"), run("2026-04-30T00:30:00.000000Z", "completed")],
    ["2026-05-01T00:30:00Z", "2026-05-02T00:30:00Z"],
    "UTC",
  );
  expect([...days].map(([day, slots]) => [day, slots.map((slot) => slot.outcome)])).toEqual([
    ["2026-04-30", ["completed"]],
    ["2026-05-01", ["running"]],
    ["2026-05-02", ["upcoming"]],
  ]);
});

test.each([
  ["completed", false, "completed"],
  ["completed", true, "skipped"],
  ["failed", false, "failed"],
  ["orphaned", false, "failed"],
  ["cancelled", false, "cancelled"],
  ["pre_run", false, "upcoming"],
  ["condition_running", false, "running"],
  ["retrying", false, "running"],
])("a run that is %s (skipped: %s) counts as %s", (state, skipped, outcome) => {
  expect(outcomeOf({ state, skipped })).toBe(outcome);
});

test("outcomes are counted in a fixed order", () => {
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
  expect(countOutcomes(slots)).toEqual([
    ["completed", 1],
    ["failed", 2],
  ]);
});

test("months are added across years", () => {
  expect(addMonths("2026-12", 1)).toBe("2027-01");
  expect(addMonths("2026-01", -1)).toBe("2025-12");
  expect(monthName("2026-05")).toBe("May 2026");
});

test("a local time has a weekday, and seconds if there are any", () => {
  expect(formatLocalTime("2026-05-02T02:30:00+02:00", NOW)).toBe("Sat 2 May 02:30");
  expect(formatLocalTime("2026-05-02T02:30:10", NOW)).toBe("Sat 2 May 02:30:10");
});

test("a local time of another year has its year", () => {
  expect(formatLocalTime("2027-01-01T02:30:00", NOW)).toBe("Fri 1 Jan 2027 02:30");
});

test("a slot is shown in the zone of its schedule with the name of the zone", () => {
  expect(formatSlot("2026-11-19T01:30:00Z", "Europe/Paris", NOW)).toBe("Thu 19 Nov 02:30 Europe/Paris");
  expect(formatSlot("2026-12-31T23:30:00Z", "Europe/Paris", NOW)).toBe("Fri 1 Jan 2027 00:30 Europe/Paris");
});

test("a slot in a zone that the browser does not know is shown in UTC", () => {
  expect(formatSlot("2026-11-19T01:30:00Z", "Mars/Olympus", NOW)).toBe("Thu 19 Nov 01:30 UTC");
});

test("started slots come newest first, then upcoming ones", () => {
  const runs = [run("2026-05-01T01:00:00Z", "failed"), run("2026-05-01T02:00:00Z", "completed")];
  const slots = [...slotsByDay(runs, ["2026-05-01T03:00:00Z", "2026-05-01T04:00:00Z"], "UTC").values()].flat();
  expect(sortForDisplay(slots).map((slot) => slot.at.slice(11, 13))).toEqual(["02", "01", "03", "04"]);
});

test("a local time beside another has a day only if it differs", () => {
  expect(formatLocalTimeBeside("2026-05-02T01:30:00", "2026-05-02T02:30:00+02:00", NOW)).toBe("01:30");
  expect(formatLocalTimeBeside("2026-05-01T23:30:00", "2026-05-02T01:30:00+02:00", NOW)).toBe("Fri 1 May 23:30");
});
