// Search parameters of the operations page.

/** In minutes. */
export const TIME_RANGES = [5, 15, 60, 360, 1_440] as const;
export const TIME_RANGE_DEFAULT = 60;

export interface OperationsSearch {
  /** The time range of the charts. */
  minutes?: number;
}

export function parseOperationsSearch(search: Record<string, unknown>): OperationsSearch {
  const minutes = TIME_RANGES.find((range) => range === Number(search.minutes));
  return minutes === undefined || minutes === TIME_RANGE_DEFAULT ? {} : { minutes };
}

export function timeRangeText(minutes: number): string {
  if (minutes < 60) {
    return `${minutes} minutes`;
  }
  return minutes === 60 ? "hour" : `${minutes / 60} hours`;
}
