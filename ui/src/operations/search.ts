// What the address of the page about operations says.

export const SPANS = [5, 15, 60, 360, 1_440] as const;
export const SPAN_USUAL = 60;

export interface OperationsSearch {
  /** How far back the charts go. */
  minutes?: number;
}

export function operationsSearchOf(search: Record<string, unknown>): OperationsSearch {
  const minutes = SPANS.find((span) => span === Number(search.minutes));
  return minutes === undefined || minutes === SPAN_USUAL ? {} : { minutes };
}

export function spanInWords(minutes: number): string {
  return minutes < 60 ? `${minutes} minutes` : minutes === 60 ? "hour" : `${minutes / 60} hours`;
}
