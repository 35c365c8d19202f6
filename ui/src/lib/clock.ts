// Times of day with milliseconds.

/** 14:03:22.123 in local time. */
export function formatClock(timestamp: string): string {
  const at = new Date(timestamp);
  const [hours, minutes, seconds] = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) =>
    String(part).padStart(2, "0"),
  );
  return `${hours}:${minutes}:${seconds}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}
