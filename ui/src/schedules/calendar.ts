// Groups the slots of a schedule by day, in the time zone of the schedule.

import type { Run } from "../api/types";

export type Outcome = "completed" | "skipped" | "failed" | "cancelled" | "running" | "upcoming";

export const OUTCOMES: readonly Outcome[] = ["completed", "skipped", "failed", "cancelled", "running", "upcoming"];

export interface Slot {
  at: string;
  outcome: Outcome;
  /** Null for an upcoming slot. */
  run: Run | null;
}

export interface Day {
  /** YYYY-MM-DD */
  date: string;
  number: number;
  /** Whether the day belongs to the month shown. */
  isInMonth: boolean;
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
      return "upcoming";
    default:
      return "running";
  }
}

/** Group runs and upcoming slots by day. A slot with a run is not upcoming. */
export function slotsByDay(runs: readonly Run[], upcoming: readonly string[], zone: string): Map<string, Slot[]> {
  const slots: Slot[] = runs.map((run) => ({ at: run.scheduled_at, outcome: outcomeOf(run), run }));
  const taken = new Set(slots.map((slot) => Date.parse(slot.at)));
  for (const at of upcoming) {
    if (!taken.has(Date.parse(at))) {
      slots.push({ at, outcome: "upcoming", run: null });
    }
  }
  slots.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const days = new Map<string, Slot[]>();
  for (const slot of slots) {
    const day = dayOf(slot.at, zone);
    const daySlots = days.get(day);
    if (daySlots) {
      daySlots.push(slot);
    } else {
      days.set(day, [slot]);
    }
  }
  return days;
}

/** Count the slots of each outcome that occurs. */
export function countOutcomes(slots: readonly Slot[]): [Outcome, number][] {
  return OUTCOMES.map((outcome): [Outcome, number] => [
    outcome,
    slots.filter((slot) => slot.outcome === outcome).length,
  ]).filter(([, number]) => number > 0);
}

/** Sort for display: started slots newest first, then upcoming ones. */
export function sortForDisplay(slots: readonly Slot[]): Slot[] {
  const started = slots.filter((slot) => slot.outcome !== "upcoming");
  return [...started.reverse(), ...slots.filter((slot) => slot.outcome === "upcoming")];
}

/** The weeks of a month from Monday, filled with days of adjacent months. */
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
      week.push({ date, number: at.getUTCDate(), isInMonth: date.startsWith(month) });
      at.setUTCDate(at.getUTCDate() + 1);
    }
    weeks.push(week);
  } while (at.toISOString().startsWith(month));
  return weeks;
}

export function addMonths(month: Month, months: number): Month {
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

/** The date in a time zone: YYYY-MM-DD. */
export function dayOf(timestamp: string, zone: string): string {
  return formatInZone(timestamp, zone).slice(0, 10);
}

/** The time in a time zone: 02:30, or 02:30:10 with seconds. */
export function timeOf(timestamp: string, zone: string): string {
  return formatInZone(timestamp, zone).slice(12).replace(/:00$/, "");
}

/** Format a slot in the time zone of its schedule: Sat 2 May 02:30 Europe/Paris. */
export function formatSlot(timestamp: string, zone: string, now = new Date()): string {
  const [day, time] = formatInZone(timestamp, zone).split(", ");
  return `${formatLocalTime(`${day}T${time}`, now)} ${shownZone(zone)}`;
}

/** Format a local time such as 2026-05-02T02:30:00 as Sat 2 May 02:30, with the year if it is not this one. An offset is ignored. */
export function formatLocalTime(local: string, now = new Date()): string {
  const at = new Date(`${local.slice(0, 19)}Z`);
  const day = at.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
  const year = at.getUTCFullYear() === now.getFullYear() ? "" : ` ${at.getUTCFullYear()}`;
  return `${day.replace(",", "")}${year} ${local.slice(11, 19).replace(/:00$/, "")}`;
}

/** Format a local time and omit the day if it equals that of another local time. */
export function formatLocalTimeBeside(local: string, other: string, now = new Date()): string {
  const text = formatLocalTime(local, now);
  return local.slice(0, 10) === other.slice(0, 10) ? (text.split(" ").at(-1) ?? text) : text;
}

/** The browser's local time: 2026-05-02T02:30:00 */
export function toLocalTime(timestamp: string): string {
  const at = new Date(timestamp);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

const FORMATTERS = new Map<string, Intl.DateTimeFormat>();

/** 2026-05-01, 02:30:00 */
function formatInZone(timestamp: string, zone: string): string {
  let formatter = FORMATTERS.get(zone);
  if (formatter === undefined) {
    formatter = createFormatter(zone);
    FORMATTERS.set(zone, formatter);
  }
  return formatter.format(new Date(timestamp));
}

function createFormatter(zone: string): Intl.DateTimeFormat {
  const options = { dateStyle: "short", timeStyle: "medium", hourCycle: "h23" } as const;
  return new Intl.DateTimeFormat("en-CA", { ...options, timeZone: shownZone(zone) });
}

/** The zone in which times are shown: UTC if only the server knows the zone of the schedule. */
export function shownZone(zone: string): string {
  try {
    new Intl.DateTimeFormat("en-CA", { timeZone: zone });
    return zone;
  } catch {
    return "UTC";
  }
}
