// Starts runs for past slots without a run, after a preview.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { apiPath, send } from "../api/client";
import type { Schedule, Schemas } from "../api/types";
import { Button, Field, linkClass } from "../components/controls";
import { Dialog } from "../components/dialog";
import { ErrorAlert } from "../components/query_result";
import { formatCount, pluralize } from "../lib/format";
import { dayOf, shownZone, timeOf } from "./calendar";

const SLOTS_MAX = 200;
const DAY_MS = 86_400_000;

type Backfill = Schemas["BackfillView"];

interface Range {
  since: string;
  until: string;
}

export function BackfillDialog({ schedule, onClose }: { schedule: Schedule; onClose(): void }) {
  const { workflow_id: workflowId } = schedule;
  const [range, setRange] = useState<Range>(() => ({
    since: toLocalInput(Date.now() - DAY_MS),
    until: toLocalInput(Date.now()),
  }));
  const queryClient = useQueryClient();
  const request = (isDryRun: boolean) =>
    send<Backfill>("POST", apiPath("schedules", workflowId, "backfill"), {
      since: new Date(range.since).toISOString(),
      until: new Date(range.until).toISOString(),
      ...(isDryRun ? { dry_run: true } : {}),
    });
  const preview = useMutation({ mutationFn: () => request(true) });
  const start = useMutation({
    mutationFn: () => request(false),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["runs"] }),
  });
  const change = (part: Partial<Range>) => {
    setRange({ ...range, ...part });
    preview.reset();
    start.reset();
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    start.reset();
    preview.mutate();
  };
  return (
    <Dialog title={`Backfill ${workflowId}`} onClose={onClose}>
      <form className="space-y-4 text-left" onSubmit={submit}>
        <p className="text-muted">
          Starts a run for each slot in the range that has no run, or whose run was cancelled or ended without a job,
          oldest first. Both ends are inclusive.
        </p>
        <div className="flex flex-wrap items-end gap-3">
          <TimeField label="From" value={range.since} onChange={(since) => change({ since })} />
          <TimeField label="Until" value={range.until} onChange={(until) => change({ until })} />
          <Button type="submit" disabled={preview.isPending}>
            Preview
          </Button>
        </div>
        {preview.error && <ErrorAlert error={preview.error} title="Preview failed" />}
        {preview.data && !start.data && (
          <Preview
            slots={preview.data.slots}
            leftOut={describeLeftOut(preview.data.left_out)}
            zone={schedule.timezone}
            isBusy={start.isPending}
            onStart={() => start.mutate()}
          />
        )}
        {start.error && <ErrorAlert error={start.error} title="Start failed" />}
        {start.data && (
          <p role="status">
            {pluralize(start.data.slots.length, "run")} started.{describeLeftOut(start.data.left_out)}{" "}
            <Link to="/runs" search={{ workflow: workflowId }} className={linkClass}>
              Show runs
            </Link>
          </p>
        )}
      </form>
    </Dialog>
  );
}

function TimeField({ label, value, onChange }: { label: string; value: string; onChange(value: string): void }) {
  return (
    <Field
      label={`${label} (local time)`}
      type="datetime-local"
      required
      step={1}
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}

interface PreviewProps {
  slots: string[];
  leftOut: string;
  zone: string;
  isBusy: boolean;
  onStart(): void;
}

function Preview({ slots, leftOut, zone, isBusy, onStart }: PreviewProps) {
  if (slots.length === 0) {
    return <p role="status">Every slot in the range has a run.{leftOut}</p>;
  }
  return (
    <div className="space-y-3">
      <p role="status" className="font-medium">
        {pluralize(slots.length, "run")} to start <span className="font-normal text-muted">({shownZone(zone)})</span>
        <span className="font-normal text-muted">{leftOut}</span>
      </p>
      <ul className="max-h-56 columns-2 overflow-y-auto rounded-md border border-line p-3 text-sm tabular-nums sm:columns-3">
        {slots.slice(0, SLOTS_MAX).map((slot) => (
          <li key={slot}>
            <time dateTime={slot}>
              {dayOf(slot, zone)} {timeOf(slot, zone)}
            </time>
          </li>
        ))}
        {slots.length > SLOTS_MAX && <li>{formatCount(slots.length - SLOTS_MAX)} more</li>}
      </ul>
      <Button variant="primary" disabled={isBusy} onClick={onStart}>
        {isBusy ? "Starting…" : `Start ${pluralize(slots.length, "run")}`}
      </Button>
    </div>
  );
}

const LEFT_OUT: Record<string, string> = {
  has_run: "with a run that ended",
  in_progress: "with a run in progress",
  scheduled: "left to the schedule",
};

/** Say how many slots are left out, and why; nothing if there are none. */
function describeLeftOut(leftOut: Record<string, number> | undefined): string {
  const reasons = Object.entries(leftOut ?? {}).map(([reason, count]) => `${count} ${LEFT_OUT[reason] ?? reason}`);
  return reasons.length > 0 ? ` Left out: ${reasons.join(", ")}.` : "";
}

/** Format a time for a datetime-local input. */
function toLocalInput(time: number): string {
  const minutes = new Date(time).getTimezoneOffset();
  return new Date(time - minutes * 60_000).toISOString().slice(0, 16);
}
