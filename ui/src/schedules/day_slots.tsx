// The slots of one day, each with its run and job.

import { useState } from "react";
import { Button, textLink } from "../components/controls";
import { Status, StatusIcon } from "../components/status";
import { Cell, RowHead, Table } from "../components/table";
import { JobLink } from "../jobs/links";
import { count, plural } from "../lib/format";
import { RunLink, runStatus } from "../runs/links";
import { asLookedFor, type Slot, timeOf } from "./calendar";

const SHOWN_FIRST = 50;

export function DaySlots({ day, slots, zone }: { day: string; slots: Slot[]; zone: string }) {
  const [shown, setShown] = useState(SHOWN_FIRST);
  const listed = asLookedFor(slots);
  return (
    <div className="border-t border-line">
      <h3 className="px-4 py-2 font-semibold">
        {day}: {plural(slots.length, "slot")}
      </h3>
      <Table
        label={`Slots of ${day}`}
        columns={[{ name: `Time (${zone})` }, { name: "State" }, { name: "Job" }, { name: "Reason" }]}
      >
        {listed.slice(0, shown).map((slot) => (
          <Row key={slot.run?.run_id ?? slot.at} slot={slot} zone={zone} />
        ))}
      </Table>
      {slots.length > shown && (
        <div className="p-2 text-center">
          <Button look="quiet" onClick={() => setShown(shown + 10 * SHOWN_FIRST)}>
            {count(slots.length - shown)} more
          </Button>
        </div>
      )}
    </div>
  );
}

function Row({ slot, zone }: { slot: Slot; zone: string }) {
  const { run } = slot;
  return (
    <tr>
      <RowHead className="tabular-nums">
        {run ? (
          <RunLink run={run} className={textLink}>
            {timeOf(slot.at, zone)}
          </RunLink>
        ) : (
          timeOf(slot.at, zone)
        )}
      </RowHead>
      <Cell>
        {run && run.state !== "pre_run" ? (
          <Status status={runStatus(run)} />
        ) : (
          <span className="inline-flex items-center gap-1.5 text-muted">
            <StatusIcon status="pending" /> to come
          </span>
        )}
      </Cell>
      <Cell>{run?.job_id && <JobLink jobId={run.job_id} />}</Cell>
      <Cell className="max-w-96 truncate text-muted">{run?.reason}</Cell>
    </tr>
  );
}
