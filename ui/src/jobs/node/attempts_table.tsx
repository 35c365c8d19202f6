// The attempts of a node, and the countdown to the next one.

import { ScrollBox } from "../../components/scroll_box";
import { StatusIcon, statusText } from "../../components/status";
import { Duration, Timestamp, useNow } from "../../components/time";
import { formatDuration } from "../../lib/format";
import type { Attempt } from "../model/state";
import { outcomeStatus, outcomeText } from "../outcomes";
import { Section } from "./section";

const ATTEMPTS_MAX = 100;

/** `until` ends the duration of active attempts, for a time in the past. */
export function AttemptsTable({ attempts, until }: { attempts: readonly Attempt[]; until: string | null }) {
  const latest = attempts.slice(-ATTEMPTS_MAX).reverse();
  return (
    <Section title={attempts.length > ATTEMPTS_MAX ? `Last ${ATTEMPTS_MAX} attempts` : "Attempts"}>
      <ScrollBox label="Attempts" className="overflow-x-auto rounded-md border border-line">
        <table className="w-full whitespace-nowrap text-left text-xs">
          <thead className="bg-sunken/60 text-muted">
            <tr>
              {["#", "Status", "Dispatched", "Queued", "Duration", "Worker"].map((name) => (
                <th key={name} scope="col" className="px-2 py-1 font-medium">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {latest.map((attempt) => (
              <Row key={`${attempt.number} ${attempt.dispatchedAt}`} attempt={attempt} until={until} />
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </Section>
  );
}

function Row({ attempt, until }: { attempt: Attempt; until: string | null }) {
  const { outcome, error, startedAt, endedAt, dispatchedAt } = attempt;
  const status = outcomeStatus(outcome) ?? (startedAt === null ? "dispatched" : "running");
  return (
    <>
      <tr className="border-t border-line/60">
        <td className="px-2 py-1 tabular-nums">{attempt.number}</td>
        <td className="px-2">
          <span className="flex items-center gap-1">
            <StatusIcon status={status} size={13} />
            {outcome === null ? statusText(status) : outcomeText(outcome)}
          </span>
        </td>
        <td className="px-2">
          <Timestamp at={dispatchedAt} />
        </td>
        <td className="px-2">
          <Duration start={dispatchedAt} end={startedAt ?? endedAt ?? until} />
        </td>
        <td className="px-2">
          <Duration start={startedAt} end={endedAt ?? until} />
        </td>
        <td className="max-w-32 truncate px-2 font-mono" title={attempt.worker ?? ""}>
          {attempt.worker ?? "–"}
        </td>
      </tr>
      {error && (
        <tr>
          <td />
          <td colSpan={5} className="whitespace-normal break-words px-2 pb-1 text-failed">
            {error.message}
          </td>
        </tr>
      )}
    </>
  );
}

/** "in 4.2 s", then "now". */
export function Countdown({ until }: { until: string }) {
  const now = useNow(100);
  const seconds = (Date.parse(until) - now) / 1000;
  return (
    <span role="timer" className="tabular-nums">
      {seconds > 0 ? `in ${seconds < 10 ? `${seconds.toFixed(1)} s` : formatDuration(Math.round(seconds))}` : "now"}
    </span>
  );
}
