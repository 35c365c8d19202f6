// Timestamps and durations that update themselves.

import { useEffect, useState } from "react";
import { formatDuration, formatRelativeTime, formatTimestamp, secondsBetween } from "../lib/format";

/** The current time, updated at an interval; null stops the updates. */
export function useNow(intervalMs: number | null): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (intervalMs === null) {
      return;
    }
    const timer = setInterval(() => setNow(Date.now()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return now;
}

export function Timestamp({ at }: { at: string | null }) {
  return at === null ? (
    <span className="text-muted">–</span>
  ) : (
    <time dateTime={at} title={at} className="whitespace-nowrap tabular-nums">
      {formatTimestamp(at)}
    </time>
  );
}

export function RelativeTime({ at }: { at: string }) {
  const now = useNow(5_000);
  return (
    <time dateTime={at} title={at} className="whitespace-nowrap">
      {formatRelativeTime(at, now)}
    </time>
  );
}

/** A duration, or the time since the start without an end. */
export function Duration({ start, end }: { start: string | null; end: string | null }) {
  const now = useNow(start !== null && end === null ? 500 : null);
  const seconds = secondsBetween(start, end, now);
  return <span className="whitespace-nowrap tabular-nums">{seconds === null ? "–" : formatDuration(seconds)}</span>;
}
