// The other job of a comparison, out of the last ones of the same workflow.

import { useQuery } from "@tanstack/react-query";
import { jobsQuery } from "../../api/queries";
import type { Job } from "../../api/types";
import { Button, Empty, Panel } from "../../components/controls";
import { Loaded } from "../../components/query_result";
import { Status } from "../../components/status";
import { Ago, Took } from "../../components/time";
import { shortId } from "../links";
import { preview } from "../list/jobs_table";

const SHOWN_MAX = 30;

export function ChooseOther({ job, onChoose }: { job: Job; onChoose(jobId: string): void }) {
  const jobs = useQuery(jobsQuery({ workflow_id: job.workflow_id, limit: SHOWN_MAX }));
  return (
    <Panel title={`Compare with another job of ${job.workflow_id}`}>
      <Loaded query={jobs}>
        {({ items }) => {
          const others = items.filter((one) => one.job_id !== job.job_id);
          return others.length === 0 ? (
            <Empty title="There is no other job of this workflow">Run it again, then compare the two.</Empty>
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
                    <Ago at={other.created_at} />, <Took start={other.started_at} end={other.completed_at} />
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
      </Loaded>
    </Panel>
  );
}
