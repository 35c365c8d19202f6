// Health, activity, workers, queues and shards of the server.

import { useQuery } from "@tanstack/react-query";
import { API } from "../api/client";
import { healthQuery } from "../api/queries";
import type { Health } from "../api/types";
import { linkClass, PageHeader } from "../components/controls";
import { Stat } from "../components/details";
import { ErrorAlert, QueryResult } from "../components/query_result";
import { Status } from "../components/status";
import { formatCount } from "../lib/format";
import { usePageTitle } from "../lib/page_title";
import { ActivityCharts } from "./activity_charts";
import { REFRESH_MS } from "./queries";
import { QueuesPanel } from "./queues_panel";
import { ShardsPanel } from "./shards_panel";
import { WorkersPanel } from "./workers_panel";

export function OperationsPage() {
  usePageTitle("Operations");
  const health = useQuery({ ...healthQuery(), refetchInterval: REFRESH_MS });
  return (
    <>
      <PageHeader
        title="Operations"
        actions={
          <>
            <a href="/metrics" className={linkClass}>
              Metrics
            </a>
            <a href={`${API}/openapi.json`} className={linkClass}>
              OpenAPI
            </a>
          </>
        }
      />
      {health.isRefetchError && (
        <div className="mb-4">
          <ErrorAlert error={health.error} title="Refresh failed" />
        </div>
      )}
      <div className="space-y-5">
        <QueryResult query={health}>{(loaded) => <Summary health={loaded} />}</QueryResult>
        <ActivityCharts />
        <QueryResult query={health}>
          {(loaded) => (
            <>
              <WorkersPanel workers={loaded.workers} />
              <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
                <QueuesPanel />
                <ShardsPanel shards={loaded.shards} />
              </div>
            </>
          )}
        </QueryResult>
      </div>
    </>
  );
}

function Summary({ health }: { health: Health }) {
  return (
    <div className="space-y-3">
      {health.problems.length > 0 && <Problems problems={health.problems} />}
      <Stats health={health} />
    </div>
  );
}

function Problems({ problems }: { problems: string[] }) {
  return (
    <div role="alert" className="rounded-md border border-failed/40 bg-failed/5 px-4 py-3">
      <p className="font-medium text-failed">Degraded</p>
      <ul className="mt-1 list-disc space-y-1 pl-5">
        {problems.map((problem) => (
          <li key={problem} className="break-words">
            {problem}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Stats({ health }: { health: Health }) {
  const healthyCount = health.workers.filter((worker) => worker.alive).length;
  const running = health.workers.reduce((sum, worker) => sum + worker.running, 0);
  return (
    <dl className="grid grid-cols-2 gap-3 sm:grid-cols-5">
      <Stat name="Status">
        <Status status={health.status} />
      </Stat>
      <Stat name="Version">{health.version}</Stat>
      <Stat name="Engines">{formatCount(health.engines.length)}</Stat>
      <Stat name="Healthy workers">
        {formatCount(healthyCount)}{" "}
        <span className="text-sm font-normal text-muted">of {formatCount(health.workers.length)}</span>
      </Stat>
      <Stat name="Running tasks">{formatCount(running)}</Stat>
    </dl>
  );
}
