// The position of time travel: the present, or after an event. Kept in the URL.

import { useEffect, useRef, useState } from "react";
import type { Event } from "../../api/types";

const DEBOUNCE_MS = 200;

/** A change applies at once and updates the URL after a delay. A change of the URL applies too. */
export function useTimePosition(
  urlPosition: number | undefined,
  setUrlPosition: (at: number | undefined) => void,
): [number | undefined, (at: number | undefined) => void] {
  const [at, setAt] = useState(urlPosition);
  const lastUrlPosition = useRef(urlPosition);
  useEffect(() => {
    if (urlPosition !== lastUrlPosition.current) {
      lastUrlPosition.current = urlPosition;
      setAt(urlPosition);
    }
  }, [urlPosition]);
  useEffect(() => {
    if (at === lastUrlPosition.current) {
      return;
    }
    const timer = setTimeout(() => {
      lastUrlPosition.current = at;
      setUrlPosition(at);
    }, DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [at, setUrlPosition]);
  return [at, setAt];
}

/** Count the events up to a time; at least `count`. */
export function countPlayed(events: readonly Event[], count: number, time: number): number {
  let played = count;
  while (played < events.length && Date.parse(events[played]?.timestamp ?? "") <= time) {
    played++;
  }
  return played;
}
