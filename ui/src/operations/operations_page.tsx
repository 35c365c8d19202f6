// How the server is: its health, workers, queues and shards, and how much goes through it.

import { useQuery } from "@tanstack/react-query";
import { API } from "../api/client";
import { healthQuery } from "../api/queries";
import type { Health } from "../api/types";
import { PageHead, textLink } from "../components/controls";
import { Figure } from "../components/details";
import { Loaded, ProblemBox } from "../components/query_result";
import { Status } from "../components/status";
import { count } from "../lib/format";
import { ActivityCharts } from "./activity_charts";
import { AGAIN_MS } from "./queries";
import { Queues, Shards, Workers } from "./workers_panel";

export function OperationsPage() {
  const health = useQuery({ ...healthQuery(), refetchInterval: AGAIN_MS });
  return (
    <>
      <PageHead
        title="Operations"
        actions={
          <>
            <a href="/metrics" className={textLink}>
              Metrics
            </a>
            <a href={`${API}/openapi.json`} className={textLink}>
              API description
            </a>
          </>
        }
      />
      {health.isRefetchError && (
        <div className="mb-4">
          <ProblemBox error={health.error} title="What you see may be out of date" />
        </div>
      )}
      <div className="space-y-5">
        <Loaded query={health}>{(told) => <Summary told={told} />}</Loaded>
        <ActivityCharts />
        <Loaded query={health}>
          {(told) => (
            <>
              <Workers workers={told.workers} />
              <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
                <Queues />
                <Shards shards={told.shards} />
              </div>
            </>
          )}
        </Loaded>
      </div>
    </>
  );
}

function Summary({ told }: { told: Health }) {
  const alive = told.workers.filter((worker) => worker.alive).length;
  const running = told.workers.reduce((sum, worker) => sum + worker.running, 0);
  return (
    <dl className="grid grid-cols-2 gap-3 sm:grid-cols-4">
      <Figure name="Health">
        <Status status={told.status} />
      </Figure>
      <Figure name="Version">{told.version}</Figure>
      <Figure name="Workers alive">
        {count(alive)} <span className="text-sm font-normal text-muted">of {count(told.workers.length)}</span>
      </Figure>
      <Figure name="Tasks running">{count(running)}</Figure>
    </dl>
  );
}
