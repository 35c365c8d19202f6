// The data of events of runs and schedules as text.

/** Name the values of an event; lists are shortened, empty values left out. */
export function describeEventData(data: Record<string, unknown>): string {
  return Object.entries(data)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${describeValue(value)}`)
    .join(", ");
}

const LISTED_MAX = 10;

function describeValue(value: unknown): string {
  if (!Array.isArray(value)) {
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  }
  const listed = value.slice(0, LISTED_MAX).map(String).join(" ");
  return value.length > LISTED_MAX ? `${listed} and ${value.length - LISTED_MAX} more` : listed;
}
