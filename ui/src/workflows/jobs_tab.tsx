// The newest jobs of a workflow.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { jobsQuery, LIVE_MS } from "../api/queries";
import type { Job, Workflow } from "../api/types";
import { Empty, Panel, textLink } from "../components/controls";
import { Loaded } from "../components/query_result";
import { Status } from "../components/status";
import { Cell, Table } from "../components/table";
import { Ago, Took } from "../components/time";
import { hasEnded } from "../jobs/job_status";
import { JobLink } from "../jobs/links";

const SHOWN = 25;
const IDLE_MS = 10_000;

export function JobsTab({ workflow: { workflow_id: workflowId } }: { workflow: Workflow }) {
  const jobs = useQuery({
    ...jobsQuery({ workflow_id: workflowId, limit: SHOWN }),
    refetchInterval: ({ state }) => (state.data?.items.some((job) => !hasEnded(job.status)) ? LIVE_MS : IDLE_MS),
  });
  return (
    <Panel
      title="Newest jobs"
      actions={
        <Link to="/" search={{ workflow: workflowId }} className={textLink}>
          All jobs of this workflow
        </Link>
      }
    >
      <Loaded query={jobs}>
        {({ items }) => (items.length > 0 ? <Jobs jobs={items} /> : <NoJobs workflowId={workflowId} />)}
      </Loaded>
    </Panel>
  );
}

function Jobs({ jobs }: { jobs: Job[] }) {
  return (
    <Table
      label="Newest jobs"
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
            <Ago at={job.created_at} />
          </Cell>
          <Cell right>
            <Took start={job.started_at} end={job.completed_at} />
          </Cell>
          <Cell className="max-w-80 truncate text-muted">{job.error?.message}</Cell>
        </tr>
      ))}
    </Table>
  );
}

function NoJobs({ workflowId }: { workflowId: string }) {
  return (
    <Empty title="It has not run yet">
      <Link to="/workflows/$workflowId" params={{ workflowId }} search={{ tab: "run" }} className={textLink}>
        Run it now
      </Link>
    </Empty>
  );
}
