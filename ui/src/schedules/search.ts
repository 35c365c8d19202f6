// Search parameters of a schedule page.

export interface ScheduleSearch {
  /** YYYY-MM; the current month by default. */
  month?: string;
  /** YYYY-MM-DD, the selected day. */
  day?: string;
}

export function parseScheduleSearch(search: Record<string, unknown>): ScheduleSearch {
  const result: ScheduleSearch = {};
  if (typeof search.month === "string" && isDate(`${search.month}-01`)) {
    result.month = search.month;
  }
  if (typeof search.day === "string" && isDate(search.day)) {
    result.day = search.day;
  }
  return result;
}

function isDate(text: string): boolean {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(`${text}T00:00:00Z`));
}
