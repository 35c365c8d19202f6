// The moment of a job that is shown: now, or after one of its events. The address says it.

import { useEffect, useRef, useState } from "react";
import type { Event } from "../../api/types";

const SETTLES_MS = 200;

/** What is set is shown at once; the address follows when it rests. Another address sets it too. */
export function useMoment(
  inAddress: number | undefined,
  toAddress: (at: number | undefined) => void,
): [number | undefined, (at: number | undefined) => void] {
  const [at, setAt] = useState(inAddress);
  const asked = useRef(inAddress);
  useEffect(() => {
    if (inAddress !== asked.current) {
      asked.current = inAddress;
      setAt(inAddress);
    }
  }, [inAddress]);
  useEffect(() => {
    if (at === asked.current) {
      return;
    }
    const timer = setTimeout(() => {
      asked.current = at;
      toAddress(at);
    }, SETTLES_MS);
    return () => clearTimeout(timer);
  }, [at, toAddress]);
  return [at, setAt];
}

/** How many events have happened when a clock that plays them says so; never fewer than there were. */
export function playedUntil(events: readonly Event[], count: number, clock: number): number {
  let reached = count;
  while (reached < events.length && Date.parse(events[reached]?.timestamp ?? "") <= clock) {
    reached++;
  }
  return reached;
}
