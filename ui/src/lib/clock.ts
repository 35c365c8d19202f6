// Instants where milliseconds matter.

/** 14:03:22.123 on the reader's clock. */
export function clock(instant: string): string {
  const at = new Date(instant);
  const [hours, minutes, seconds] = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) =>
    String(part).padStart(2, "0"),
  );
  return `${hours}:${minutes}:${seconds}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}
