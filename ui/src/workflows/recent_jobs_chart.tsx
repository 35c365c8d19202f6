// The latest jobs of a workflow as small bars with status icons, oldest first.

import { Link } from "@tanstack/react-router";
import { type KeyboardEvent, useRef, useState } from "react";
import { StatusIcon, statusText, TEXT_CLASSES, toneOf } from "../components/status";
import { formatDuration, formatTimestamp, secondsBetween } from "../lib/format";
import { relativeDurations } from "./recent_jobs";
import type { RecentJob } from "./types";

const BAR_PERCENT_MIN = 6;

export function RecentJobsChart({ workflowId, recent, now }: { workflowId: string; recent: RecentJob[]; now: number }) {
  const container = useRef<HTMLElement>(null);
  const jobs = [...recent].reverse();
  const durations = relativeDurations(jobs, now);
  // One tab stop; arrow keys move between jobs.
  const [tabStop, setTabStop] = useState<string | null>(null);
  const current = jobs.some((job) => job.job_id === tabStop) ? tabStop : jobs.at(-1)?.job_id;
  const move = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = step === undefined ? undefined : jobs[jobs.findIndex((job) => job.job_id === current) + step];
    if (next) {
      event.preventDefault();
      setTabStop(next.job_id);
      container.current?.querySelector<HTMLElement>(`[data-job="${next.job_id}"]`)?.focus();
    }
  };
  if (jobs.length === 0) {
    return <span className="text-muted">No jobs</span>;
  }
  return (
    <section
      ref={container}
      aria-label={`Latest jobs of ${workflowId}`}
      className="flex items-end gap-px"
      onKeyDown={move}
    >
      {jobs.map((job, index) => (
        <Link
          key={job.job_id}
          to="/jobs/$jobId"
          params={{ jobId: job.job_id }}
          data-job={job.job_id}
          tabIndex={job.job_id === current ? 0 : -1}
          preload={false}
          aria-label={describeJob(job, now)}
          title={describeJob(job, now)}
          className="flex w-4 flex-col items-center gap-0.5 rounded-sm hover:bg-sunken"
        >
          <span className={`flex h-5 w-full flex-col justify-end px-[3px] ${TEXT_CLASSES[toneOf(job.status)]}`}>
            <span
              className="rounded-t-[1px] bg-current opacity-60"
              style={{ height: `${Math.max(BAR_PERCENT_MIN, 100 * (durations[index] ?? 0))}%` }}
            />
          </span>
          <StatusIcon status={job.status} size={13} />
        </Link>
      ))}
    </section>
  );
}

function describeJob(job: RecentJob, now: number): string {
  const seconds = secondsBetween(job.started_at, job.completed_at, now);
  return `${statusText(job.status)}${seconds === null ? "" : `, ${formatDuration(seconds)}`}, ${formatTimestamp(job.created_at)}`;
}
