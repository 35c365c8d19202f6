// Slots of a schedule laid out on the days of a month, on the schedule's own clock.

import type { Run } from "../api/types";

export type Outcome = "completed" | "skipped" | "failed" | "cancelled" | "running" | "coming";

export const OUTCOMES: readonly Outcome[] = ["completed", "skipped", "failed", "cancelled", "running", "coming"];

export interface Slot {
  at: string;
  outcome: Outcome;
  /** What happened in it; null for one that is still to come. */
  run: Run | null;
}

export interface Day {
  /** YYYY-MM-DD */
  date: string;
  number: number;
  /** Whether it belongs to the month that is shown. */
  inMonth: boolean;
}

/** YYYY-MM */
export type Month = string;

export function outcomeOf(run: Pick<Run, "state" | "skipped">): Outcome {
  switch (run.state) {
    case "completed":
      return run.skipped ? "skipped" : "completed";
    case "failed":
    case "orphaned":
      return "failed";
    case "cancelled":
      return "cancelled";
    case "pre_run":
      return "coming";
    default:
      return "running";
  }
}

/** The slots by day. A slot that has a run already is told by it, not as one to come. */
export function slotsByDay(runs: readonly Run[], coming: readonly string[], zone: string): Map<string, Slot[]> {
  const slots: Slot[] = runs.map((run) => ({ at: run.scheduled_at, outcome: outcomeOf(run), run }));
  const taken = new Set(slots.map((slot) => Date.parse(slot.at)));
  for (const at of coming) {
    if (!taken.has(Date.parse(at))) {
      slots.push({ at, outcome: "coming", run: null });
    }
  }
  slots.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const days = new Map<string, Slot[]>();
  for (const slot of slots) {
    const day = dayOf(slot.at, zone);
    const there = days.get(day);
    if (there) {
      there.push(slot);
    } else {
      days.set(day, [slot]);
    }
  }
  return days;
}

/** How many slots there are of each outcome; those of which there is none are left out. */
export function outcomeCounts(slots: readonly Slot[]): [Outcome, number][] {
  return OUTCOMES.map((outcome): [Outcome, number] => [
    outcome,
    slots.filter((slot) => slot.outcome === outcome).length,
  ]).filter(([, number]) => number > 0);
}

/** What has begun, newest first, and then what is to come: of a day with thousands, those are looked for. */
export function asLookedFor(slots: readonly Slot[]): Slot[] {
  const begun = slots.filter((slot) => slot.outcome !== "coming");
  return [...begun.reverse(), ...slots.filter((slot) => slot.outcome === "coming")];
}

/** The weeks of a month, Monday first, filled up with days of its neighbours. */
export function weeksOf(month: Month): Day[][] {
  const first = new Date(`${month}-01T00:00:00Z`);
  const start = new Date(first);
  start.setUTCDate(1 - ((first.getUTCDay() + 6) % 7));
  const weeks: Day[][] = [];
  const at = new Date(start);
  do {
    const week: Day[] = [];
    for (let weekday = 0; weekday < 7; weekday++) {
      const date = at.toISOString().slice(0, 10);
      week.push({ date, number: at.getUTCDate(), inMonth: date.startsWith(month) });
      at.setUTCDate(at.getUTCDate() + 1);
    }
    weeks.push(week);
  } while (at.toISOString().startsWith(month));
  return weeks;
}

export function monthAfter(month: Month, months: number): Month {
  const at = new Date(`${month}-01T00:00:00Z`);
  at.setUTCMonth(at.getUTCMonth() + months);
  return at.toISOString().slice(0, 7);
}

export function monthName(month: Month): string {
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString("en-GB", {
    month: "long",
    year: "numeric",
    timeZone: "UTC",
  });
}

/** The day that a clock in a zone shows at an instant: YYYY-MM-DD. */
export function dayOf(instant: string, zone: string): string {
  return wordsOf(instant, zone).slice(0, 10);
}

/** The time of day that a clock in a zone shows: 02:30, with seconds where there are any. */
export function timeOf(instant: string, zone: string): string {
  return wordsOf(instant, zone).slice(12).replace(/:00$/, "");
}

/** What a clock shows, 2026-05-02T02:30:00 with or without an offset, as Sat 2 May 02:30. */
export function clockInWords(local: string): string {
  const at = new Date(`${local.slice(0, 19)}Z`);
  const day = at.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
  return `${day.replace(",", "")} ${local.slice(11, 19).replace(/:00$/, "")}`;
}

/** What one clock shows beside another: the day only where it differs. */
export function besideClock(local: string, other: string): string {
  const told = clockInWords(local);
  return local.slice(0, 10) === other.slice(0, 10) ? (told.split(" ").at(-1) ?? told) : told;
}

/** What the reader's clock shows at an instant: 2026-05-02T02:30:00 */
export function localClock(instant: string): string {
  const at = new Date(instant);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

const CLOCKS = new Map<string, Intl.DateTimeFormat>();

/** 2026-05-01, 02:30:00 */
function wordsOf(instant: string, zone: string): string {
  let clock = CLOCKS.get(zone);
  if (clock === undefined) {
    clock = clockOf(zone);
    CLOCKS.set(zone, clock);
  }
  return clock.format(new Date(instant));
}

function clockOf(zone: string): Intl.DateTimeFormat {
  const options = { dateStyle: "short", timeStyle: "medium", hourCycle: "h23" } as const;
  try {
    return new Intl.DateTimeFormat("en-CA", { ...options, timeZone: zone });
  } catch {
    // The server's database may know zones that this browser does not.
    return new Intl.DateTimeFormat("en-CA", { ...options, timeZone: "UTC" });
  }
}
