// What the address of a schedule's page says.

export interface ScheduleSearch {
  /** YYYY-MM; without one, the month that the schedule's clock shows. */
  month?: string;
  /** YYYY-MM-DD: the day whose slots are listed. */
  day?: string;
}

export function scheduleSearchOf(search: Record<string, unknown>): ScheduleSearch {
  const found: ScheduleSearch = {};
  if (typeof search.month === "string" && isDay(`${search.month}-01`)) {
    found.month = search.month;
  }
  if (typeof search.day === "string" && isDay(search.day)) {
    found.day = search.day;
  }
  return found;
}

function isDay(text: string): boolean {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(`${text}T00:00:00Z`));
}
