// The attempts of a node, and how long until the next one.

import { ScrollBox } from "../../components/scroll_box";
import { StatusIcon } from "../../components/status";
import { Moment, Took, useNow } from "../../components/time";
import { duration } from "../../lib/format";
import type { Attempt } from "../model/state";
import { Section } from "./section";

const SHOWN_MAX = 100;

/** What has not ended is shown as it was until an instant; without one, as it is now. */
export function Attempts({ attempts, until }: { attempts: readonly Attempt[]; until: string | null }) {
  const shown = attempts.slice(-SHOWN_MAX).reverse();
  return (
    <Section title={attempts.length > SHOWN_MAX ? `The last ${SHOWN_MAX} attempts` : "Attempts"}>
      <ScrollBox label="Attempts" className="overflow-x-auto rounded-md border border-line">
        <table className="w-full whitespace-nowrap text-left text-xs">
          <thead className="bg-sunken/60 text-muted">
            <tr>
              {["#", "Outcome", "Dispatched", "Waited", "Ran", "Worker"].map((name) => (
                <th key={name} scope="col" className="px-2 py-1 font-medium">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((attempt) => (
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
  const going = startedAt === null ? "dispatched" : "running";
  return (
    <>
      <tr className="border-t border-line/60">
        <td className="px-2 py-1 tabular-nums">{attempt.number}</td>
        <td className="px-2">
          <span className="flex items-center gap-1">
            <StatusIcon status={outcome === "retrying" ? "failed" : (outcome ?? going)} size={13} />
            {outcome === "retrying" ? "failed, again" : (outcome ?? going)}
          </span>
        </td>
        <td className="px-2">
          <Moment at={dispatchedAt} />
        </td>
        <td className="px-2">
          <Took start={dispatchedAt} end={startedAt ?? endedAt ?? until} />
        </td>
        <td className="px-2">
          <Took start={startedAt} end={endedAt ?? until} />
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

/** in 4.2 s, until it is due. */
export function Countdown({ until }: { until: string }) {
  const now = useNow(100);
  const left = (Date.parse(until) - now) / 1000;
  return (
    <span role="timer" className="tabular-nums">
      {left > 0 ? `in ${left < 10 ? `${left.toFixed(1)} s` : duration(Math.round(left))}` : "due now"}
    </span>
  );
}
