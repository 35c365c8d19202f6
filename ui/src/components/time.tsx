// Instants and durations that keep up with the clock.

import { useEffect, useState } from "react";
import { ago, between, duration, moment } from "../lib/format";

/** The time of day, renewed so often; null stops the clock. */
export function useNow(everyMs: number | null): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (everyMs === null) {
      return;
    }
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

export function Moment({ at }: { at: string | null }) {
  return at === null ? (
    <span className="text-muted">–</span>
  ) : (
    <time dateTime={at} title={at} className="whitespace-nowrap tabular-nums">
      {moment(at)}
    </time>
  );
}

export function Ago({ at }: { at: string }) {
  const now = useNow(5_000);
  return (
    <time dateTime={at} title={at} className="whitespace-nowrap">
      {ago(at, now)}
    </time>
  );
}

/** How long something took, or takes so far. */
export function Took({ start, end }: { start: string | null; end: string | null }) {
  const now = useNow(start !== null && end === null ? 500 : null);
  const seconds = between(start, end, now);
  return <span className="whitespace-nowrap tabular-nums">{seconds === null ? "–" : duration(seconds)}</span>;
}
