// The graph of a job that runs, live, above the list: what goes on is seen before anything is read.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { versionQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { Button, Panel, textLink } from "../../components/controls";
import { Status } from "../../components/status";
import { Took } from "../../components/time";
import { GraphView } from "../graph/graph_view";
import { useJob } from "../job/use_job";
import { watchedOf } from "./featured_job";

// A larger graph is not loaded only because somebody looks at the list.
const NODES_MAX = 200;
const HIDDEN = "windlass.watched.hidden";

export function WatchedJob({ jobs }: { jobs: Job[] }) {
  const [isHidden, setHidden] = useState(() => localStorage.getItem(HIDDEN) !== null);
  const [before, setBefore] = useState<string | null>(null);
  const watched = watchedOf(before, jobs);
  if (watched !== before) {
    setBefore(watched);
  }
  const job = jobs.find((one) => one.job_id === watched);
  const hide = (isHidden: boolean) => {
    setHidden(isHidden);
    if (isHidden) {
      localStorage.setItem(HIDDEN, "yes");
    } else {
      localStorage.removeItem(HIDDEN);
    }
  };
  if (isHidden) {
    return (
      <Button look="quiet" className="mb-3" onClick={() => hide(false)}>
        Show what runs
      </Button>
    );
  }
  return job ? <Small key={job.job_id} job={job} onHide={() => hide(true)} /> : null;
}

function Small({ job, onHide }: { job: Job; onHide(): void }) {
  const version = useQuery(versionQuery(job.workflow_id, job.version));
  const size = version.data?.definition.nodes.length ?? 0;
  return size > 0 && size <= NODES_MAX ? <Watched jobId={job.job_id} onHide={onHide} /> : null;
}

function Watched({ jobId, onHide }: { jobId: string; onHide(): void }) {
  const { job, live } = useJob(jobId);
  const navigate = useNavigate();
  if (!job.data || !live) {
    return <Panel className="mb-4 h-72"> </Panel>;
  }
  const { workflow_id: workflowId } = job.data;
  const latest = live.history.latest;
  const open = (node: string | null) => {
    if (node !== null) {
      void navigate({ to: "/jobs/$jobId", params: { jobId }, search: { node } });
    }
  };
  return (
    <Panel
      className="mb-4"
      title={
        <span className="flex flex-wrap items-center gap-x-3">
          <Link to="/jobs/$jobId" params={{ jobId }} className={textLink}>
            {workflowId}
          </Link>
          <span className="text-sm">
            <Status status={latest.status} />
          </span>
          <span className="text-sm font-normal text-muted">
            <Took start={latest.startedAt} end={latest.endedAt} />
          </span>
        </span>
      }
      actions={
        <Button look="quiet" onClick={onHide}>
          Hide
        </Button>
      }
    >
      <div className="h-60">
        <GraphView
          graph={live.graph}
          state={latest}
          selected={null}
          onSelect={open}
          label={`Graph of ${workflowId}`}
          isStill
          className="rounded-b-lg"
        />
      </div>
    </Panel>
  );
}
