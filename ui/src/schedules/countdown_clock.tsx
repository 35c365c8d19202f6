// Counts down to an instant.

import { useNow } from "../components/time";
import { countdown, countdownEveryMs } from "./countdown";

export function CountdownClock({ at }: { at: string }) {
  const now = useNow(countdownEveryMs(at, Date.now()));
  return (
    <time dateTime={at} title={at} className="whitespace-nowrap tabular-nums">
      {countdown(at, now)}
    </time>
  );
}
