// Chooses the other job of a comparison from the latest jobs of the workflow.

import { useQuery } from "@tanstack/react-query";
import { jobsQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { Button, EmptyState, Panel } from "../../components/controls";
import { QueryResult } from "../../components/query_result";
import { Status } from "../../components/status";
import { Duration, RelativeTime } from "../../components/time";
import { shortId } from "../links";
import { preview } from "../list/jobs_table";

const JOBS_MAX = 30;

export function JobPicker({ job, onChoose }: { job: Job; onChoose(jobId: string): void }) {
  const jobs = useQuery(jobsQuery({ workflow_id: job.workflow_id, limit: JOBS_MAX }));
  return (
    <Panel title={`Jobs of ${job.workflow_id}`}>
      <QueryResult query={jobs}>
        {({ items }) => {
          const others = items.filter(({ job_id }) => job_id !== job.job_id);
          return others.length === 0 ? (
            <EmptyState title="No other jobs">Run the workflow again, then compare the jobs.</EmptyState>
          ) : (
            <ul className="divide-y divide-line/60">
              {others.map((other) => (
                <li key={other.job_id} className="flex flex-wrap items-center gap-x-4 gap-y-1 px-4 py-1.5">
                  <span className="flex w-28">
                    <Status status={other.status} />
                  </span>
                  <span className="font-mono text-xs">{shortId(other.job_id)}</span>
                  <span className="text-muted">@{other.version}</span>
                  <span className="text-muted">
                    <RelativeTime at={other.created_at} />,{" "}
                    <Duration start={other.started_at} end={other.completed_at} />
                  </span>
                  <span className="hidden min-w-0 flex-1 truncate font-mono text-xs text-muted md:inline">
                    {preview(other.input_data)}
                  </span>
                  <Button
                    className="ml-auto"
                    aria-label={`Compare with ${other.job_id}`}
                    onClick={() => onChoose(other.job_id)}
                  >
                    Compare
                  </Button>
                </li>
              ))}
            </ul>
          );
        }}
      </QueryResult>
    </Panel>
  );
}
