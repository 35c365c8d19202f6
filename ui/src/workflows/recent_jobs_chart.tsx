// The last jobs of a workflow side by side, oldest first: how each ended, and how long it took beside the others.

import { Link } from "@tanstack/react-router";
import { type KeyboardEvent, useRef, useState } from "react";
import { StatusIcon, TEXT, toneOf } from "../components/status";
import { between, duration, moment } from "../lib/format";
import { sharesOf } from "./recent_jobs";
import type { RecentJob } from "./types";

const BAR_LEAST_PERCENT = 6;

export function SparkGrid({ workflowId, recent, now }: { workflowId: string; recent: RecentJob[]; now: number }) {
  const box = useRef<HTMLElement>(null);
  const jobs = [...recent].reverse();
  const shares = sharesOf(jobs, now);
  // One stop for the Tab key; the arrows go from job to job.
  const [stop, setStop] = useState<string | null>(null);
  const current = jobs.some((job) => job.job_id === stop) ? stop : jobs.at(-1)?.job_id;
  const move = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = step === undefined ? undefined : jobs[jobs.findIndex((job) => job.job_id === current) + step];
    if (next) {
      event.preventDefault();
      setStop(next.job_id);
      box.current?.querySelector<HTMLElement>(`[data-job="${next.job_id}"]`)?.focus();
    }
  };
  if (jobs.length === 0) {
    return <span className="text-muted">Not run yet</span>;
  }
  return (
    <section ref={box} aria-label={`Last jobs of ${workflowId}`} className="flex items-end gap-px" onKeyDown={move}>
      {jobs.map((job, place) => (
        <Link
          key={job.job_id}
          to="/jobs/$jobId"
          params={{ jobId: job.job_id }}
          data-job={job.job_id}
          tabIndex={job.job_id === current ? 0 : -1}
          preload={false}
          aria-label={told(job, now)}
          title={told(job, now)}
          className="flex w-4 flex-col items-center gap-0.5 rounded-sm hover:bg-sunken"
        >
          <span className={`flex h-5 w-full flex-col justify-end px-[3px] ${TEXT[toneOf(job.status)]}`}>
            <span
              className="rounded-t-[1px] bg-current opacity-60"
              style={{ height: `${Math.max(BAR_LEAST_PERCENT, 100 * (shares[place] ?? 0))}%` }}
            />
          </span>
          <StatusIcon status={job.status} size={13} />
        </Link>
      ))}
    </section>
  );
}

function told(job: RecentJob, now: number): string {
  const seconds = between(job.started_at, job.completed_at, now);
  return `${job.status}${seconds === null ? "" : `, ${duration(seconds)}`}, ${moment(job.created_at)}`;
}
