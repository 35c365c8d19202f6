// Where the marks of a time axis stand.

const STEPS = [1, 2, 5];

export interface Tick {
  /** Milliseconds from the beginning. */
  at: number;
  name: string;
}

/** Marks at round durations, at least so many pixels apart. */
export function ticks(spanMs: number, widthPx: number, apartPx = 90): Tick[] {
  if (spanMs <= 0 || widthPx <= 0) {
    return [{ at: 0, name: "0" }];
  }
  const step = stepOf((spanMs * apartPx) / widthPx);
  const count = Math.floor(spanMs / step) + 1;
  return Array.from({ length: count }, (_, place) => ({ at: place * step, name: nameOf(place * step) }));
}

const ABOVE_A_MINUTE = [60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400];

/** The smallest round step that is no less. */
function stepOf(least: number): number {
  if (least > 30_000) {
    const seconds = ABOVE_A_MINUTE.find((one) => one * 1000 >= least);
    return (seconds ?? Math.ceil(least / 86_400_000) * 86_400) * 1000;
  }
  for (let power = 0.01; ; power *= 10) {
    const step = STEPS.find((one) => one * power >= least);
    if (step !== undefined) {
      return step * power;
    }
  }
}

function nameOf(milliseconds: number): string {
  if (milliseconds === 0) {
    return "0";
  }
  if (milliseconds < 1000) {
    return `${round(milliseconds)} ms`;
  }
  const seconds = milliseconds / 1000;
  if (seconds < 60) {
    return `${round(seconds)} s`;
  }
  if (seconds < 3600) {
    const rest = Math.round(seconds % 60);
    return `${Math.floor(seconds / 60)} m${rest ? ` ${rest} s` : ""}`;
  }
  const minutes = Math.round((seconds % 3600) / 60);
  return `${Math.floor(seconds / 3600)} h${minutes ? ` ${minutes} m` : ""}`;
}

// Sums of tenths are not exact.
function round(number: number): number {
  return Math.round(number * 1000) / 1000;
}
