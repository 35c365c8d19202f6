// The data of events of runs and schedules as text.

import { statusText } from "../components/status";

interface DescribedEvent {
  event_type: string;
  data: Record<string, unknown>;
}

/** Name the values of an event; lists are shortened, empty values left out. A change of state has both states first. */
export function describeEvent({ event_type, data }: DescribedEvent): string {
  if (event_type !== "run_state_changed") {
    return describeValues(data);
  }
  const { state, previous_state: previous, attempt, ...rest } = data;
  const change = `${statusText(String(previous))} → ${statusText(String(state))}`;
  // The first attempt is 0 here and 1 in the details of the run.
  const number = Number(attempt) > 0 ? { attempt: Number(attempt) + 1 } : {};
  return [change, describeValues({ ...number, ...rest })].filter(Boolean).join(", ");
}

function describeValues(data: Record<string, unknown>): string {
  return Object.entries(data)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${describeValue(value)}`)
    .join(", ");
}

const LISTED_MAX = 10;

function describeValue(value: unknown): string {
  if (typeof value === "boolean") {
    return value ? "yes" : "no";
  }
  if (!Array.isArray(value)) {
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  }
  const listed = value.slice(0, LISTED_MAX).map(String).join(" ");
  return value.length > LISTED_MAX ? `${listed} and ${value.length - LISTED_MAX} more` : listed;
}
