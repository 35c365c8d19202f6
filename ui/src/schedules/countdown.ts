// How long it is until an instant, as a clock counts down.

import { duration } from "../lib/format";

/** 9 s, 4 m 09 s, 3 h 05 m, 12 d 4 h; "now" once it has come. */
export function countdown(instant: string, now: number): string {
  const seconds = Math.ceil((Date.parse(instant) - now) / 1000);
  if (seconds <= 0) {
    return "now";
  }
  return seconds < 60 ? `${seconds} s` : duration(seconds);
}

/** How often it is worth looking at the clock: seconds are told within the last hour only. */
export function countdownEveryMs(instant: string, now: number): number {
  return Date.parse(instant) - now < 3_600_000 ? 1_000 : 30_000;
}
