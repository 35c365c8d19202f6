// The progress of a job for screen readers, announced every few seconds at most.

import { useEffect, useRef, useState } from "react";
import type { JobState } from "../model/state";
import { describeProgress } from "./tones";

const INTERVAL_MS = 3_000;

export function LiveSummary({ state }: { state: JobState | null }) {
  const latest = state === null ? "" : describeProgress(state);
  const [announced, setAnnounced] = useState(latest);
  const announcedAt = useRef(Number.NEGATIVE_INFINITY);
  useEffect(() => {
    if (latest === announced) {
      return;
    }
    const delay = Math.max(0, announcedAt.current + INTERVAL_MS - performance.now());
    const timer = setTimeout(() => {
      announcedAt.current = performance.now();
      setAnnounced(latest);
    }, delay);
    return () => clearTimeout(timer);
  }, [latest, announced]);
  return (
    <p className="sr-only" aria-live="polite">
      {announced}
    </p>
  );
}
