// Ticks of a time axis.

const STEPS = [1, 2, 5];

export interface Tick {
  /** Milliseconds from the start. */
  at: number;
  name: string;
}

/** Return ticks at round durations with a minimum distance. */
export function ticks(spanMs: number, widthPx: number, distancePx = 90): Tick[] {
  if (spanMs <= 0 || widthPx <= 0) {
    return [{ at: 0, name: "0" }];
  }
  const step = roundStep((spanMs * distancePx) / widthPx);
  const count = Math.floor(spanMs / step) + 1;
  return Array.from({ length: count }, (_, index) => ({ at: index * step, name: formatTick(index * step) }));
}

const LONG_STEPS_SECONDS = [60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400];

/** The smallest round step of at min `min` milliseconds. */
function roundStep(min: number): number {
  if (min > 30_000) {
    const seconds = LONG_STEPS_SECONDS.find((seconds) => seconds * 1000 >= min);
    return (seconds ?? Math.ceil(min / 86_400_000) * 86_400) * 1000;
  }
  for (let power = 0.01; ; power *= 10) {
    const step = STEPS.find((step) => step * power >= min);
    if (step !== undefined) {
      return step * power;
    }
  }
}

function formatTick(toMilliseconds: number): string {
  if (toMilliseconds === 0) {
    return "0";
  }
  if (toMilliseconds < 1000) {
    return `${round(toMilliseconds)} ms`;
  }
  const seconds = toMilliseconds / 1000;
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

// Multiples of 0.1 are not exact.
function round(number: number): number {
  return Math.round(number * 1000) / 1000;
}
