// Jobs in a table: how they stand, what they are, and how long each took beside the others.

import type { Job, Json } from "../../api/types";
import { ScrollBox } from "../../components/scroll_box";
import { FILLS, Status, StatusIcon, toneOf } from "../../components/status";
import { Ago, Took, useNow } from "../../components/time";
import { between } from "../../lib/format";
import { hasEnded } from "../job_status";
import { JobLink, WorkflowLink } from "../links";

const PREVIEW_LENGTH = 80;
const BAR_LEAST_PERCENT = 1.5;

interface Picking {
  picked: ReadonlySet<string>;
  onPick(jobId: string, isPicked: boolean): void;
  onPickAll(isPicked: boolean): void;
}

export function JobsTable({ jobs, picking }: { jobs: Job[]; picking: Picking }) {
  const isLive = jobs.some((job) => !hasEnded(job.status));
  const now = useNow(isLive ? 1_000 : null);
  const longest = Math.max(0.001, ...jobs.map((job) => between(job.started_at, job.completed_at, now) ?? 0));
  const allPicked = jobs.every((job) => picking.picked.has(job.job_id));
  return (
    <ScrollBox label="Jobs" className="overflow-x-auto">
      <table className="w-full text-left">
        <thead className="border-b border-line text-xs text-muted">
          <tr>
            <th scope="col" className="w-8 py-2 pl-4">
              <input
                type="checkbox"
                aria-label="Pick all jobs shown"
                className="accent-accent align-middle"
                checked={allPicked}
                onChange={(event) => picking.onPickAll(event.target.checked)}
              />
            </th>
            <Head name="Status" />
            <Head name="Workflow" />
            <Head name="Job" className="hidden sm:table-cell" />
            <Head name="Input" className="hidden lg:table-cell" />
            <Head name="Created" />
            <Head name="Duration" className="hidden sm:table-cell" />
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <Row key={job.job_id} job={job} picking={picking} longest={longest} now={now} />
          ))}
        </tbody>
      </table>
    </ScrollBox>
  );
}

function Head({ name, className = "" }: { name: string; className?: string }) {
  return (
    <th scope="col" className={`px-2 py-2 font-medium ${className}`}>
      {name}
    </th>
  );
}

function Row({ job, picking, longest, now }: { job: Job; picking: Picking; longest: number; now: number }) {
  return (
    <tr className="group border-b border-line/60 align-middle last:border-0 hover:bg-sunken/50">
      <td className="py-1.5 pl-4">
        <input
          type="checkbox"
          aria-label={`Pick job ${job.job_id}`}
          className="accent-accent align-middle"
          checked={picking.picked.has(job.job_id)}
          onChange={(event) => picking.onPick(job.job_id, event.target.checked)}
        />
      </td>
      <td className="px-2">
        <span className="hidden sm:flex">
          <Status status={job.status} />
        </span>
        <span className="flex sm:hidden">
          <StatusIcon status={job.status} />
          <span className="sr-only">{job.status}</span>
        </span>
      </td>
      <td className="min-w-28 px-2 font-medium">
        <WorkflowLink workflowId={job.workflow_id} version={job.version} />
        <span className="block sm:hidden">
          <JobLink jobId={job.job_id} />
        </span>
      </td>
      <td className="hidden px-2 sm:table-cell">
        <JobLink jobId={job.job_id} copy />
      </td>
      <td className="hidden w-full max-w-0 truncate px-2 font-mono text-xs text-muted lg:table-cell">
        {preview(job.input_data)}
      </td>
      <td className="px-2 text-muted">
        <Ago at={job.created_at} />
      </td>
      <td className="hidden px-2 pr-4 sm:table-cell">
        <DurationBar job={job} longest={longest} now={now} />
      </td>
    </tr>
  );
}

function DurationBar({ job, longest, now }: { job: Job; longest: number; now: number }) {
  const seconds = between(job.started_at, job.completed_at, now);
  return (
    <div className="flex items-center gap-2">
      <div className="h-1.5 w-24 rounded-full bg-sunken" aria-hidden="true">
        {seconds !== null && (
          <div
            className={`h-full rounded-full opacity-80 ${FILLS[toneOf(job.status)]}`}
            style={{ width: `${Math.min(100, Math.max(BAR_LEAST_PERCENT, (seconds / longest) * 100))}%` }}
          />
        )}
      </div>
      <span className="w-16 text-right">
        <Took start={job.started_at} end={job.completed_at} />
      </span>
    </div>
  );
}

/** The beginning of an input, in one line. */
export function preview(input: Json): string {
  const isEmpty = input === null || (typeof input === "object" && Object.keys(input).length === 0);
  return isEmpty ? "" : JSON.stringify(input).slice(0, PREVIEW_LENGTH);
}
