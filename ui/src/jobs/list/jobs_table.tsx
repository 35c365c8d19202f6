// A table of jobs with status, workflow, input and duration.

import type { Job, Json } from "../../api/types";
import { ScrollBox } from "../../components/scroll_box";
import { FILL_CLASSES, Status, StatusIcon, statusText, toneOf } from "../../components/status";
import { Duration, RelativeTime, useNow } from "../../components/time";
import { secondsBetween } from "../../lib/format";
import { Failures } from "../failures";
import { isFinal } from "../job_status";
import { JobLink, WorkflowLink } from "../links";

const PREVIEW_LENGTH = 80;
const BAR_PERCENT_MIN = 1.5;

interface Selection {
  selected: ReadonlySet<string>;
  onSelect(jobId: string, isSelected: boolean): void;
  onSelectAll(isSelected: boolean): void;
}

export function JobsTable({ jobs, selection }: { jobs: Job[]; selection: Selection }) {
  const isLive = jobs.some((job) => !isFinal(job.status));
  const now = useNow(isLive ? 1_000 : null);
  const longest = Math.max(0.001, ...jobs.map((job) => secondsBetween(job.started_at, job.completed_at, now) ?? 0));
  const allSelected = jobs.every((job) => selection.selected.has(job.job_id));
  return (
    <ScrollBox label="Jobs" className="overflow-x-auto">
      <table className="w-full text-left">
        <thead className="border-b border-line text-xs text-muted">
          <tr>
            <th scope="col" className="w-8 py-2 pl-4">
              <input
                type="checkbox"
                aria-label="Select all jobs"
                className="accent-accent align-middle"
                checked={allSelected}
                onChange={(event) => selection.onSelectAll(event.target.checked)}
              />
            </th>
            <ColumnHeader name="Status" />
            <ColumnHeader name="Workflow" />
            <ColumnHeader name="Job" className="hidden sm:table-cell" />
            <ColumnHeader name="Input" className="hidden lg:table-cell" />
            <ColumnHeader name="Created" />
            <ColumnHeader name="Duration" className="hidden sm:table-cell" />
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <Row key={job.job_id} job={job} selection={selection} longest={longest} now={now} />
          ))}
        </tbody>
      </table>
    </ScrollBox>
  );
}

function ColumnHeader({ name, className = "" }: { name: string; className?: string }) {
  return (
    <th scope="col" className={`px-2 py-2 font-medium ${className}`}>
      {name}
    </th>
  );
}

function Row({ job, selection, longest, now }: { job: Job; selection: Selection; longest: number; now: number }) {
  return (
    <tr className="group border-b border-line/60 align-middle last:border-0 hover:bg-sunken/50">
      <td className="py-1.5 pl-4">
        <input
          type="checkbox"
          aria-label={`Select job ${job.job_id}`}
          className="accent-accent align-middle"
          checked={selection.selected.has(job.job_id)}
          onChange={(event) => selection.onSelect(job.job_id, event.target.checked)}
        />
      </td>
      <td className="px-2">
        <span className="hidden sm:flex">
          <Status status={job.status} />
          <Failures status={job.status} failures={job.failures} />
        </span>
        <span className="flex sm:hidden">
          <StatusIcon status={job.status} />
          <span className="sr-only">{statusText(job.status)}</span>
        </span>
      </td>
      <td className="min-w-28 px-2 font-medium">
        <WorkflowLink workflowId={job.workflow_id} version={job.version} />
        <span className="block sm:hidden">
          <JobLink jobId={job.job_id} />
          <Failures status={job.status} failures={job.failures} />
        </span>
      </td>
      <td className="hidden px-2 sm:table-cell">
        <JobLink jobId={job.job_id} copy />
      </td>
      <td className="hidden w-full max-w-0 truncate px-2 font-mono text-xs text-muted lg:table-cell">
        {preview(job.input_data)}
      </td>
      <td className="px-2 text-muted">
        <RelativeTime at={job.created_at} />
      </td>
      <td className="hidden px-2 pr-4 sm:table-cell">
        <DurationBar job={job} longest={longest} now={now} />
      </td>
    </tr>
  );
}

function DurationBar({ job, longest, now }: { job: Job; longest: number; now: number }) {
  const seconds = secondsBetween(job.started_at, job.completed_at, now);
  return (
    <div className="flex items-center gap-2">
      <div className="h-1.5 w-24 rounded-full bg-sunken" aria-hidden="true">
        {seconds !== null && (
          <div
            className={`h-full rounded-full opacity-80 ${FILL_CLASSES[toneOf(job.status)]}`}
            style={{ width: `${Math.min(100, Math.max(BAR_PERCENT_MIN, (seconds / longest) * 100))}%` }}
          />
        )}
      </div>
      <span className="w-16 text-right">
        <Duration start={job.started_at} end={job.completed_at} />
      </span>
    </div>
  );
}

/** The start of an input on one line. */
export function preview(input: Json): string {
  const isEmpty = input === null || (typeof input === "object" && Object.keys(input).length === 0);
  return isEmpty ? "" : JSON.stringify(input).slice(0, PREVIEW_LENGTH);
}
