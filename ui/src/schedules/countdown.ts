// Formats the time until a timestamp.

import { formatDuration } from "../lib/format";

/** 9 s, 4 m 09 s, 3 h 05 m, 12 d 4 h; "now" when it is reached. */
export function formatCountdown(timestamp: string, now: number): string {
  const seconds = Math.ceil((Date.parse(timestamp) - now) / 1000);
  if (seconds <= 0) {
    return "now";
  }
  return seconds < 60 ? `${seconds} s` : formatDuration(seconds);
}

/** The update interval: seconds are shown in the last hour only. */
export function countdownIntervalMs(timestamp: string, now: number): number {
  return Date.parse(timestamp) - now < 3_600_000 ? 1_000 : 30_000;
}
