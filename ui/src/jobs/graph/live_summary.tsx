// How the job goes, for those who do not see the graph; told anew every few seconds at most.

import { useEffect, useRef, useState } from "react";
import type { JobState } from "../model/state";
import { summaryOf } from "./tones";

const EVERY_MS = 3_000;

export function Spoken({ state }: { state: JobState | null }) {
  const told = state === null ? "" : summaryOf(state);
  const [text, setText] = useState(told);
  const saidAt = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, saidAt.current + EVERY_MS - performance.now());
    const timer = setTimeout(() => {
      saidAt.current = performance.now();
      setText(told);
    }, wait);
    return () => clearTimeout(timer);
  }, [told]);
  return (
    <p className="sr-only" aria-live="polite">
      {text}
    </p>
  );
}
