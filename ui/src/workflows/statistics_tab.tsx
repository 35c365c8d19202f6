// Statistics of the latest jobs: outcomes, durations and the critical path.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import type { Workflow } from "../api/types";
import { EmptyState, Panel, Select } from "../components/controls";
import { Stat } from "../components/details";
import { QueryResult } from "../components/query_result";
import { StatusIcon, statusText } from "../components/status";
import { Cell, RowHeader, Table } from "../components/table";
import { formatCount, formatDuration, pluralize } from "../lib/format";
import { statisticsQuery, versionsQuery } from "./queries";
import { parseWorkflowSearch } from "./search";
import type { NodeStatistics, Statistics } from "./types";

const SAMPLE_SIZES = [20, 50, 100, 200] as const;
const SAMPLE_SIZE_DEFAULT = 50;
const NODES_MAX = 200;

const route = getRouteApi("/workflows/$workflowId");

export function StatisticsTab({ workflow }: { workflow: Workflow }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const jobs = SAMPLE_SIZES.find((number) => number === search.jobs) ?? SAMPLE_SIZE_DEFAULT;
  const version = /^\d+$/.test(search.version ?? "") ? Number(search.version) : null;
  const statistics = useQuery({ ...statisticsQuery(workflow.workflow_id, jobs, version), refetchInterval: 10_000 });
  const versions = useQuery(versionsQuery(workflow.workflow_id));
  const numbers = versions.data?.map((one) => String(one.version)) ?? [];
  const set = (change: Record<string, string>) =>
    void navigate({ search: (before) => parseWorkflowSearch({ ...before, ...change }), replace: true });
  return (
    <>
      <div className="mb-3 flex flex-wrap gap-2">
        <Select
          label="Sample size"
          hideLabel
          value={String(jobs)}
          options={SAMPLE_SIZES.map((number) => [String(number), `Last ${number} jobs`] as const)}
          onChange={(event) => set({ jobs: event.target.value })}
        />
        <Select
          label="Version"
          hideLabel
          value={version === null ? "" : String(version)}
          options={[["", "Any version"], ...numbers.map((number) => [number, `Version ${number}`] as const)]}
          onChange={(event) => set({ version: event.target.value })}
        />
      </div>
      <QueryResult query={statistics}>
        {(loaded) =>
          loaded.jobs === 0 ? (
            <Panel>
              <EmptyState title="No finished jobs">Statistics appear when the first job ends.</EmptyState>
            </Panel>
          ) : (
            <StatisticsView statistics={loaded} />
          )
        }
      </QueryResult>
    </>
  );
}

function StatisticsView({ statistics }: { statistics: Statistics }) {
  const { duration_seconds: durations } = statistics;
  return (
    <div className="space-y-4">
      <dl className="grid grid-cols-2 gap-3 sm:grid-cols-3 lg:grid-cols-6">
        <Outcome status="completed" number={statistics.completed} />
        <Outcome status="failed" number={statistics.failed} />
        <Outcome status="cancelled" number={statistics.cancelled} />
        <Stat name="Duration (p50)">{durations ? formatDuration(durations.p50) : "–"}</Stat>
        <Stat name="Duration (p95)">{durations ? formatDuration(durations.p95) : "–"}</Stat>
        <Stat name="Longest">{durations ? formatDuration(durations.max) : "–"}</Stat>
      </dl>
      {statistics.critical_path.length > 0 && <CriticalPath statistics={statistics} />}
      <Nodes statistics={statistics} />
    </div>
  );
}

function Outcome({ status, number }: { status: string; number: number }) {
  return (
    <Stat name={statusText(status)}>
      <span className="inline-flex items-center gap-2">
        <StatusIcon status={status} />
        {formatCount(number)}
      </span>
    </Stat>
  );
}

/** The critical path of the job with the median duration. */
function CriticalPath({ statistics: { critical_path: path, nodes } }: { statistics: Statistics }) {
  const byId = new Map(nodes.map((node) => [node.node_id, node]));
  return (
    <Panel title="Critical path of the median job">
      <p className="px-4 pt-3 text-muted">
        {pluralize(path.length, "node")}. Only faster nodes on this path make the job faster.
      </p>
      <ol className="flex flex-wrap items-center gap-y-2 px-4 py-3">
        {path.slice(0, NODES_MAX).map((nodeId, index) => (
          <li key={nodeId} className="flex min-w-0 items-center">
            {index > 0 && (
              <span aria-hidden="true" className="px-1.5 text-muted">
                →
              </span>
            )}
            <span className="min-w-0 rounded-md border border-line bg-paper px-2.5 py-1">
              <span className="block break-all font-medium">{nodeId}</span>
              <span className="block text-xs tabular-nums text-muted">{medianDuration(byId.get(nodeId))}</span>
            </span>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function medianDuration(node: NodeStatistics | undefined): string {
  return node?.duration_seconds ? formatDuration(node.duration_seconds.p50) : "–";
}

function Nodes({ statistics }: { statistics: Statistics }) {
  const [isByDuration, setByDuration] = useState(true);
  const path = new Set(statistics.critical_path);
  const longest = Math.max(Number.EPSILON, ...statistics.nodes.map((node) => node.duration_seconds?.p95 ?? 0));
  const nodes = [...statistics.nodes].sort((a, b) =>
    isByDuration
      ? (b.duration_seconds?.p50 ?? 0) - (a.duration_seconds?.p50 ?? 0)
      : b.failed - a.failed || b.retried - a.retried,
  );
  return (
    <Panel
      title="Nodes"
      actions={
        <Select
          label="Sort nodes"
          hideLabel
          value={isByDuration ? "duration" : "failed"}
          options={[
            ["duration", "Longest first"],
            ["failed", "Most failures first"],
          ]}
          onChange={(event) => setByDuration(event.target.value === "duration")}
        />
      }
    >
      <Table
        label="Nodes"
        columns={[
          { name: "Node" },
          { name: "Duration (p50, p95)", className: "w-1/3 min-w-48" },
          { name: "p50", right: true },
          { name: "p95", right: true },
          { name: "Started", right: true },
          { name: "Failed", right: true },
          { name: "Retried", right: true },
          { name: "Critical path", right: true },
        ]}
      >
        {nodes.slice(0, NODES_MAX).map((node) => (
          <NodeRow key={node.node_id} node={node} longest={longest} isOnPath={path.has(node.node_id)} />
        ))}
      </Table>
      {nodes.length > NODES_MAX && (
        <p className="border-t border-line px-4 py-2 text-muted">
          First {NODES_MAX} of {formatCount(nodes.length)} shown
        </p>
      )}
    </Panel>
  );
}

function NodeRow({ node, longest, isOnPath }: { node: NodeStatistics; longest: number; isOnPath: boolean }) {
  const durations = node.duration_seconds;
  return (
    <tr>
      <RowHeader className="min-w-32 max-w-80 break-all">{node.node_id}</RowHeader>
      <Cell>
        {durations && <Bar p50={durations.p50 / longest} p95={durations.p95 / longest} isOnPath={isOnPath} />}
      </Cell>
      <Cell right className="whitespace-nowrap">
        {durations ? formatDuration(durations.p50) : "–"}
      </Cell>
      <Cell right className="whitespace-nowrap">
        {durations ? formatDuration(durations.p95) : "–"}
      </Cell>
      <Cell right>{formatCount(node.runs)}</Cell>
      <Cell right className={node.failed > 0 ? "font-medium text-failed" : "text-muted"}>
        {formatCount(node.failed)}
      </Cell>
      <Cell right className={node.retried > 0 ? "font-medium text-waiting" : "text-muted"}>
        {formatCount(node.retried)}
      </Cell>
      <Cell right>
        {isOnPath ? `${Math.round(100 * node.share_of_critical_path)} %` : <span className="text-muted">–</span>}
      </Cell>
    </tr>
  );
}

function Bar({ p50, p95, isOnPath }: { p50: number; p95: number; isOnPath: boolean }) {
  const tone = isOnPath ? "bg-accent" : "bg-pending";
  return (
    <div aria-hidden="true" className="relative h-3 rounded-sm bg-sunken">
      <span className={`absolute inset-y-0 left-0 rounded-sm opacity-30 ${tone}`} style={{ width: `${100 * p95}%` }} />
      <span className={`absolute inset-y-0 left-0 min-w-0.5 rounded-sm ${tone}`} style={{ width: `${100 * p50}%` }} />
    </div>
  );
}
