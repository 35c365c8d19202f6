// The head of a job's page: what it is, how it stands, when it was, and why it failed.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { at, get } from "../../api/client";
import type { Definition, Job, NodeError, Page, Run } from "../../api/types";
import { CopyButton } from "../../components/copy_button";
import { Status } from "../../components/status";
import { Ago, Moment, Took } from "../../components/time";
import { hasEnded } from "../job_status";
import { WorkflowLink } from "../links";
import type { JobState } from "../model/state";
import { ErrorBox } from "../node/node_error_box";
import { JobActions } from "./job_actions";

// A connection that is back within this time was not missed.
const LOST_MS = 1_500;
const RUNS_LOOKED_AT = 100;

export interface Head {
  job: Job;
  /** How it stands by its events; null before they are there. */
  latest: JobState | null;
  definition: Definition | undefined;
  isLost: boolean;
  goOn(): void;
}

export function JobHead({ job, latest, definition, isLost, goOn }: Head) {
  const known = latest !== null && latest.seq > 0;
  const status = known ? latest.status : job.status;
  const [startedAt, endedAt] = known ? [latest.startedAt, latest.endedAt] : [job.started_at, job.completed_at];
  return (
    <header className="mb-3">
      <div className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <h1 className="flex flex-wrap items-center gap-x-3 text-xl font-semibold tracking-tight">
            <WorkflowLink workflowId={job.workflow_id} version={job.version} />
            <span className="text-sm" aria-live="polite">
              <Status status={status} />
            </span>
          </h1>
          <div className="mt-0.5 flex flex-wrap items-center gap-x-4 gap-y-0.5 text-muted">
            <span className="inline-flex items-center font-mono text-xs">
              {job.job_id}
              <CopyButton text={job.job_id} label="Copy the id of the job" />
            </span>
            <span>
              created <Ago at={job.created_at} />
            </span>
            {startedAt !== null && (
              <span>
                {hasEnded(status) ? "took" : "for"} <Took start={startedAt} end={endedAt} />
              </span>
            )}
            <More job={job} status={status} definition={definition} />
          </div>
        </div>
        <div className="flex flex-wrap items-center gap-2">
          <JobActions job={job} status={status} goOn={goOn} />
        </div>
      </div>
      <Lost isLost={isLost && !hasEnded(status)} />
      <JobError error={known ? latest.error : job.error} latest={latest} />
    </header>
  );
}

/** What only some jobs have. */
function More({ job, status, definition }: { job: Job; status: string; definition: Definition | undefined }) {
  return (
    <>
      {job.scheduled_at && status === "pending" && (
        <span>
          begins <Moment at={job.scheduled_at} />
        </span>
      )}
      {job.priority !== 0 && <span>priority {job.priority}</span>}
      {job.idempotency_key && <span className="break-all">key {job.idempotency_key}</span>}
      {definition && hasRuns(definition) && <OfRun job={job} />}
    </>
  );
}

const OF_RUNS = ["schedule", "constraints", "actions", "run_retry"];

function hasRuns(definition: Definition): boolean {
  return OF_RUNS.some((key) => definition[key] !== undefined && definition[key] !== null);
}

/** The run around this job; only runs know their jobs. */
function OfRun({ job }: { job: Job }) {
  const query = { workflow_id: job.workflow_id, limit: RUNS_LOOKED_AT };
  const runs = useQuery({
    queryKey: ["runs", query],
    queryFn: ({ signal }) => get<Page<Run>>(at("runs"), query, signal),
  });
  const run = runs.data?.items.find((one) => one.job_id === job.job_id);
  return run ? (
    <span>
      {run.origin},{" "}
      <Link to="/runs/$runId" params={{ runId: run.run_id }} className="text-accent hover:underline">
        its run
      </Link>
    </span>
  ) : null;
}

function Lost({ isLost }: { isLost: boolean }) {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (!isLost) {
      setShown(false);
      return;
    }
    const timer = setTimeout(() => setShown(true), LOST_MS);
    return () => clearTimeout(timer);
  }, [isLost]);
  return (
    <p role="status" className={isShown ? "mt-1 text-waiting" : "sr-only"}>
      {isShown ? "Connection lost, trying again…" : ""}
    </p>
  );
}

function JobError({ error, latest }: { error: NodeError | null; latest: JobState | null }) {
  if (!error) {
    return null;
  }
  // The node knows more of its failure than the job does.
  const number = latest?.graph.index.get(error.node_id ?? "");
  const ofNode = number === undefined ? null : (latest?.nodes[number]?.error ?? null);
  return (
    <div className="mt-2">
      <ErrorBox error={{ ...ofNode, ...error, traceback: undefined }}>
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
      </ErrorBox>
    </div>
  );
}
