// Runs slots of the past that have no run: first they are shown, then they are started.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { at, send } from "../api/client";
import type { Schedule, Schemas } from "../api/shapes";
import { Button, Field, textLink } from "../parts/controls";
import { Dialog } from "../parts/dialog";
import { count, plural } from "../parts/format";
import { ProblemBox } from "../parts/problem";
import { dayOf, timeOf } from "./calendar";

const SLOTS_SHOWN_MAX = 200;
const DAY_MS = 86_400_000;

type Backfilled = Schemas["BackfillView"];

interface Range {
  since: string;
  until: string;
}

export function BackfillDialog({ schedule, onClose }: { schedule: Schedule; onClose(): void }) {
  const { workflow_id: workflowId } = schedule;
  const [range, setRange] = useState<Range>(() => ({ since: local(Date.now() - DAY_MS), until: local(Date.now()) }));
  const queries = useQueryClient();
  const ask = (isDry: boolean) =>
    send<Backfilled>("POST", at("schedules", workflowId, "backfill"), {
      since: new Date(range.since).toISOString(),
      until: new Date(range.until).toISOString(),
      ...(isDry ? { dry_run: true } : {}),
    });
  const preview = useMutation({ mutationFn: () => ask(true) });
  const start = useMutation({
    mutationFn: () => ask(false),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["runs"] }),
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
        <p className="text-muted">Slots of this range that have no run get one, oldest first. Both ends count.</p>
        <div className="flex flex-wrap items-end gap-3">
          <Instant label="From" value={range.since} onChange={(since) => change({ since })} />
          <Instant label="Until" value={range.until} onChange={(until) => change({ until })} />
          <Button type="submit" disabled={preview.isPending}>
            Preview
          </Button>
        </div>
        {preview.error && <ProblemBox error={preview.error} title="There is no preview" />}
        {preview.data && !start.data && (
          <Preview
            slots={preview.data.slots}
            zone={schedule.timezone}
            busy={start.isPending}
            onStart={() => start.mutate()}
          />
        )}
        {start.error && <ProblemBox error={start.error} title="Nothing was started" />}
        {start.data && (
          <p role="status">
            {plural(start.data.slots.length, "slot")} of the range are taken up.{" "}
            <Link to="/runs" search={{ workflow: workflowId }} className={textLink}>
              See the runs
            </Link>
          </p>
        )}
      </form>
    </Dialog>
  );
}

function Instant({ label, value, onChange }: { label: string; value: string; onChange(value: string): void }) {
  return (
    <Field
      label={`${label} (your clock)`}
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
  zone: string;
  busy: boolean;
  onStart(): void;
}

function Preview({ slots, zone, busy, onStart }: PreviewProps) {
  if (slots.length === 0) {
    return <p role="status">No slot of this range is without a run.</p>;
  }
  return (
    <div className="space-y-3">
      <p role="status" className="font-medium">
        {plural(slots.length, "run")} would start:
      </p>
      <ul className="max-h-56 columns-2 overflow-y-auto rounded-md border border-line p-3 text-sm tabular-nums sm:columns-3">
        {slots.slice(0, SLOTS_SHOWN_MAX).map((slot) => (
          <li key={slot}>
            <time dateTime={slot}>
              {dayOf(slot, zone)} {timeOf(slot, zone)}
            </time>
          </li>
        ))}
        {slots.length > SLOTS_SHOWN_MAX && <li>and {count(slots.length - SLOTS_SHOWN_MAX)} more</li>}
      </ul>
      <Button look="main" disabled={busy} onClick={onStart}>
        {busy ? "Starting…" : `Start ${plural(slots.length, "run")}`}
      </Button>
    </div>
  );
}

/** An instant as the field of the browser wants it, on the reader's clock. */
function local(instant: number): string {
  const minutes = new Date(instant).getTimezoneOffset();
  return new Date(instant - minutes * 60_000).toISOString().slice(0, 16);
}
