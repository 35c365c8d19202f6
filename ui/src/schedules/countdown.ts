// How long it is until an instant, as a clock counts down.

/** 9 s, 4 m 09 s, 3 h 05 m, 12 d 4 h; "now" once it has come. */
export function countdown(instant: string, now: number): string {
  const seconds = Math.ceil((Date.parse(instant) - now) / 1000);
  if (seconds <= 0) {
    return "now";
  }
  if (seconds < 60) {
    return `${seconds} s`;
  }
  if (seconds < 3_600) {
    return `${Math.floor(seconds / 60)} m ${pad(seconds % 60)} s`;
  }
  if (seconds < 86_400) {
    return `${Math.floor(seconds / 3_600)} h ${pad(Math.floor((seconds % 3_600) / 60))} m`;
  }
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3_600)} h`;
}

/** How often it is worth looking at the clock: seconds are told within the last hour only. */
export function countdownEveryMs(instant: string, now: number): number {
  return Date.parse(instant) - now < 3_600_000 ? 1_000 : 30_000;
}

function pad(number: number): string {
  return String(number).padStart(2, "0");
}
