// Counts down to a time.

import { useNow } from "../components/time";
import { countdownIntervalMs, formatCountdown } from "./countdown";

export function Countdown({ at }: { at: string }) {
  const now = useNow(countdownIntervalMs(at, Date.now()));
  return (
    <time dateTime={at} title={at} className="whitespace-nowrap tabular-nums">
      {formatCountdown(at, now)}
    </time>
  );
}
