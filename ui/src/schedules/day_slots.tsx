// The slots of one day with their runs and jobs.

import { useState } from "react";
import { Button, linkClass } from "../components/controls";
import { Status, StatusIcon } from "../components/status";
import { Cell, RowHeader, Table } from "../components/table";
import { JobLink } from "../jobs/links";
import { formatCount, pluralize } from "../lib/format";
import { RunLink, runStatus } from "../runs/links";
import { type Slot, shownZone, sortForDisplay, timeOf } from "./calendar";

const PAGE_SIZE = 50;

export function DaySlots({ day, slots, zone }: { day: string; slots: Slot[]; zone: string }) {
  const [visibleCount, setVisibleCount] = useState(PAGE_SIZE);
  const sorted = sortForDisplay(slots);
  return (
    <div className="border-t border-line">
      <h3 className="px-4 py-2 font-semibold">
        {day}: {pluralize(slots.length, "slot")}
      </h3>
      <Table
        label={`Slots of ${day}`}
        columns={[{ name: `Time (${shownZone(zone)})` }, { name: "Status" }, { name: "Job" }, { name: "Reason" }]}
      >
        {sorted.slice(0, visibleCount).map((slot) => (
          <Row key={slot.run?.run_id ?? slot.at} slot={slot} zone={zone} />
        ))}
      </Table>
      {slots.length > visibleCount && (
        <div className="p-2 text-center">
          <Button variant="ghost" onClick={() => setVisibleCount(visibleCount + 10 * PAGE_SIZE)}>
            {formatCount(slots.length - visibleCount)} more
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
      <RowHeader className="tabular-nums">
        {run ? (
          <RunLink run={run} className={linkClass}>
            {timeOf(slot.at, zone)}
          </RunLink>
        ) : (
          timeOf(slot.at, zone)
        )}
      </RowHeader>
      <Cell>
        {run && run.state !== "pre_run" ? (
          <Status status={runStatus(run)} />
        ) : (
          <span className="inline-flex items-center gap-1.5 text-muted">
            <StatusIcon status="pending" /> Upcoming
          </span>
        )}
      </Cell>
      <Cell>{run?.job_id && <JobLink jobId={run.job_id} />}</Cell>
      <Cell className="max-w-96 truncate text-muted">{run?.reason}</Cell>
    </tr>
  );
}
