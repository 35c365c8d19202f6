// The header of a job page: workflow, status, times, actions and error.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { apiPath, get } from "../../api/client";
import type { Definition, Job, NodeError, Page, Run } from "../../api/types";
import { CopyButton } from "../../components/copy_button";
import { Status, statusText } from "../../components/status";
import { Duration, RelativeTime, Timestamp } from "../../components/time";
import { Failures } from "../failures";
import { isInternal } from "../internal_workflow";
import { isFinal } from "../job_status";
import { JobLink, WorkflowLink } from "../links";
import type { JobState } from "../model/state";
import { NodeErrorBox } from "../node/node_error_box";
import { JobActions } from "./job_actions";
import { WebhookNote } from "./webhook_note";

// Shorter interruptions are not shown.
const CONNECTION_LOST_MS = 1_500;
const RUNS_SEARCHED = 100;
const STARTED_JOBS_MAX = 10;

export interface JobHeaderProps {
  job: Job;
  /** The state by the events of the job; null before they are loaded. */
  latest: JobState | null;
  definition: Definition | undefined;
  isConnectionLost: boolean;
  onResumed(): void;
}

export function JobHeader({ job, latest, definition, isConnectionLost, onResumed }: JobHeaderProps) {
  const { status, startedAt, endedAt, error, failures } = currentState(job, latest);
  return (
    <header className="mb-3">
      <div className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <h1 className="flex flex-wrap items-center gap-x-3 text-xl font-semibold tracking-tight">
            <WorkflowLink workflowId={job.workflow_id} version={job.version} />
            <span className="inline-flex flex-wrap items-center text-sm" aria-live="polite">
              <Status status={status} />
              <Failures status={status} failures={failures} />
            </span>
          </h1>
          <div className="mt-0.5 flex flex-wrap items-center gap-x-4 gap-y-0.5 text-muted">
            <span className="inline-flex items-center font-mono text-xs">
              {job.job_id}
              <CopyButton text={job.job_id} label="Copy job id" />
            </span>
            <span>
              Created <RelativeTime at={job.created_at} />
            </span>
            {startedAt !== null && (
              <span>
                Duration <Duration start={startedAt} end={endedAt} />
              </span>
            )}
            <JobDetails job={job} status={status} definition={definition} />
          </div>
        </div>
        <div className="flex flex-wrap items-center gap-2">
          <JobActions job={job} status={status} failures={failures} onResumed={onResumed} />
        </div>
      </div>
      {isInternal(job.workflow_id) && <WebhookNote jobId={job.job_id} status={status} />}
      <ConnectionStatus isLost={isConnectionLost && !isFinal(status)} />
      <JobError error={error} latest={latest} />
    </header>
  );
}

/** The state of a finished job comes from the API, that of an active job from its events. */
function currentState(job: Job, latest: JobState | null) {
  const isLive = latest !== null && latest.seq > 0;
  if (isLive && !(isFinal(job.status) && isFinal(latest.status))) {
    const { status, startedAt, endedAt, error, failures } = latest;
    return { status, startedAt, endedAt, error, failures };
  }
  const { status, error, failures } = job;
  return { status, startedAt: job.started_at, endedAt: job.completed_at, error, failures };
}

/** Details that only some jobs have. */
function JobDetails({ job, status, definition }: { job: Job; status: string; definition: Definition | undefined }) {
  return (
    <>
      {job.scheduled_at && status === "pending" && (
        <span>
          Starts <Timestamp at={job.scheduled_at} />
        </span>
      )}
      {job.priority !== 0 && <span>Priority {job.priority}</span>}
      {job.idempotency_key && <span className="break-all">Key {job.idempotency_key}</span>}
      {definition && hasRuns(definition) && <RunOfJob job={job} />}
      <Origin job={job} />
      {definition && hasRuns(definition) && <StartedJobs jobId={job.job_id} />}
    </>
  );
}

const RUN_KEYS = ["schedule", "constraints", "actions", "run_retry"];

function hasRuns(definition: Definition): boolean {
  return RUN_KEYS.some((key) => definition[key] !== undefined && definition[key] !== null);
}

/** The run of this job. Jobs do not reference their run, so it is searched in the latest runs. */
function RunOfJob({ job }: { job: Job }) {
  const query = { workflow_id: job.workflow_id, limit: RUNS_SEARCHED };
  const runs = useQuery({
    queryKey: ["runs", query],
    queryFn: ({ signal }) => get<Page<Run>>(apiPath("runs"), query, signal),
  });
  const run = runs.data?.items.find(({ job_id }) => job_id === job.job_id);
  return run ? (
    <span>
      <Link to="/runs/$runId" params={{ runId: run.run_id }} className="text-accent hover:underline">
        Run ({run.origin})
      </Link>
    </span>
  ) : null;
}

/** What started this job, if it was not submitted. */
function Origin({ job }: { job: Job }) {
  if (job.origin === "submit") {
    return null;
  }
  return (
    <span>
      Started by {statusText(job.origin).toLowerCase()}
      {job.parent_job_id && (
        <>
          {" of "}
          <JobLink jobId={job.parent_job_id} />
        </>
      )}
      {job.parent_run_id && (
        <>
          {" ("}
          <Link
            to="/runs/$runId"
            params={{ runId: job.parent_run_id }}
            className="break-all text-accent hover:underline"
          >
            run
          </Link>
          )
        </>
      )}
    </span>
  );
}

/** The jobs that the run of this job started. */
function StartedJobs({ jobId }: { jobId: string }) {
  const query = { parent_job_id: jobId, limit: STARTED_JOBS_MAX };
  const jobs = useQuery({
    queryKey: ["jobs", "started", jobId],
    queryFn: ({ signal }) => get<Page<Job>>(apiPath("jobs"), query, signal),
  });
  const started = jobs.data?.items ?? [];
  return started.length > 0 ? (
    <span>
      Started{" "}
      {started.map((job) => (
        <span key={job.job_id} className="mr-1">
          {job.workflow_id} <JobLink jobId={job.job_id} />
        </span>
      ))}
    </span>
  ) : null;
}

function ConnectionStatus({ isLost }: { isLost: boolean }) {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (!isLost) {
      setShown(false);
      return;
    }
    const timer = setTimeout(() => setShown(true), CONNECTION_LOST_MS);
    return () => clearTimeout(timer);
  }, [isLost]);
  return (
    <p role="status" className={isShown ? "mt-1 text-waiting" : "sr-only"}>
      {isShown ? "Connection lost, reconnecting…" : ""}
    </p>
  );
}

function JobError({ error, latest }: { error: NodeError | null; latest: JobState | null }) {
  if (!error) {
    return null;
  }
  // The error of the node has more details than the error of the job.
  const number = latest?.graph.index.get(error.node_id ?? "");
  const nodeError = number === undefined ? null : (latest?.nodes[number]?.error ?? null);
  return (
    <div className="mt-2">
      <NodeErrorBox error={{ ...nodeError, ...error, traceback: undefined }}>
        {error.node_id && (
          <>
            <span className="text-muted"> in node </span>
            <Link
              from="/jobs/$jobId"
              to="."
              search={(before) => ({ ...before, node: error.node_id })}
              className="font-medium text-accent underline"
            >
              {error.node_id}
            </Link>
          </>
        )}
      </NodeErrorBox>
    </div>
  );
}
