// The latest jobs of a workflow.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { jobsQuery, LIVE_INTERVAL_MS } from "../api/queries";
import type { Job, Workflow } from "../api/types";
import { EmptyState, linkClass, Panel } from "../components/controls";
import { QueryResult } from "../components/query_result";
import { Status } from "../components/status";
import { Cell, Table } from "../components/table";
import { Duration, RelativeTime } from "../components/time";
import { isFinal } from "../jobs/job_status";
import { JobLink } from "../jobs/links";

const JOBS_MAX = 25;
const IDLE_INTERVAL_MS = 10_000;

export function JobsTab({ workflow: { workflow_id: workflowId } }: { workflow: Workflow }) {
  const jobs = useQuery({
    ...jobsQuery({ workflow_id: workflowId, limit: JOBS_MAX }),
    refetchInterval: ({ state }) =>
      state.data?.items.some((job) => !isFinal(job.status)) ? LIVE_INTERVAL_MS : IDLE_INTERVAL_MS,
  });
  return (
    <Panel
      title="Latest jobs"
      actions={
        <Link to="/" search={{ workflow: workflowId }} className={linkClass}>
          All jobs
        </Link>
      }
    >
      <QueryResult query={jobs}>
        {({ items }) => (items.length > 0 ? <JobTable jobs={items} /> : <NoJobs workflowId={workflowId} />)}
      </QueryResult>
    </Panel>
  );
}

function JobTable({ jobs }: { jobs: Job[] }) {
  return (
    <Table
      label="Latest jobs"
      columns={[
        { name: "Status" },
        { name: "Job" },
        { name: "Version" },
        { name: "Created" },
        { name: "Duration", right: true },
        { name: "Error" },
      ]}
    >
      {jobs.map((job) => (
        <tr key={job.job_id}>
          <Cell>
            <Status status={job.status} />
          </Cell>
          <Cell>
            <JobLink jobId={job.job_id} copy />
          </Cell>
          <Cell className="tabular-nums">{job.version}</Cell>
          <Cell>
            <RelativeTime at={job.created_at} />
          </Cell>
          <Cell right>
            <Duration start={job.started_at} end={job.completed_at} />
          </Cell>
          <Cell className="max-w-80 truncate text-muted">{job.error?.message}</Cell>
        </tr>
      ))}
    </Table>
  );
}

function NoJobs({ workflowId }: { workflowId: string }) {
  return (
    <EmptyState title="No jobs yet">
      <Link to="/workflows/$workflowId" params={{ workflowId }} search={{ tab: "run" }} className={linkClass}>
        Run workflow
      </Link>
    </EmptyState>
  );
}
