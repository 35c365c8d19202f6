// The live graph of a running job above the list.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { versionQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { Button, linkClass, Panel } from "../../components/controls";
import { Status } from "../../components/status";
import { Duration } from "../../components/time";
import { GraphView } from "../graph/graph_view";
import { useJob } from "../job/use_job";
import { chooseFeaturedJob } from "./featured_job";

// Larger graphs are not loaded with the list.
const NODES_MAX = 200;
const HIDDEN_KEY = "windlass.featured.hidden";

export function FeaturedJobPanel({ jobs }: { jobs: Job[] }) {
  const [isHidden, setHidden] = useState(() => localStorage.getItem(HIDDEN_KEY) !== null);
  const [featuredId, setFeaturedId] = useState<string | null>(null);
  const nextId = chooseFeaturedJob(featuredId, jobs);
  if (nextId !== featuredId) {
    setFeaturedId(nextId);
  }
  const job = jobs.find(({ job_id }) => job_id === nextId);
  const setIsHidden = (isHidden: boolean) => {
    setHidden(isHidden);
    if (isHidden) {
      localStorage.setItem(HIDDEN_KEY, "yes");
    } else {
      localStorage.removeItem(HIDDEN_KEY);
    }
  };
  if (isHidden) {
    return (
      <Button variant="ghost" className="mb-3" onClick={() => setIsHidden(false)}>
        Show graph
      </Button>
    );
  }
  return job ? <SmallJobOnly key={job.job_id} job={job} onHide={() => setIsHidden(true)} /> : null;
}

function SmallJobOnly({ job, onHide }: { job: Job; onHide(): void }) {
  const version = useQuery(versionQuery(job.workflow_id, job.version));
  const size = version.data?.definition.nodes.length ?? 0;
  return size > 0 && size <= NODES_MAX ? <JobGraph jobId={job.job_id} onHide={onHide} /> : null;
}

function JobGraph({ jobId, onHide }: { jobId: string; onHide(): void }) {
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
          <Link to="/jobs/$jobId" params={{ jobId }} className={linkClass}>
            {workflowId}
          </Link>
          <span className="text-sm">
            <Status status={live.hasState ? latest.status : job.data.status} />
          </span>
          <span className="text-sm font-normal text-muted">
            <Duration start={latest.startedAt} end={latest.endedAt} />
          </span>
        </span>
      }
      actions={
        <Button variant="ghost" onClick={onHide}>
          Hide
        </Button>
      }
    >
      <div className="h-60">
        <GraphView
          graph={live.graph}
          state={live.hasState ? latest : null}
          selected={null}
          onSelect={open}
          label={`Graph of ${workflowId}`}
          isStatic
          className="rounded-b-lg"
        />
      </div>
    </Panel>
  );
}
