// How the last jobs of a workflow went: how long they took, what failed, and what everything waited for.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import type { Workflow } from "../api/types";
import { Choice, Empty, Panel } from "../components/controls";
import { Figure } from "../components/details";
import { Loaded } from "../components/query_result";
import { StatusIcon } from "../components/status";
import { Cell, RowHead, Table } from "../components/table";
import { count, duration, plural } from "../lib/format";
import { statisticsQuery, versionsQuery } from "./queries";
import { workflowSearchOf } from "./search";
import type { NodeStatistics, Statistics } from "./types";

const SAMPLES = [20, 50, 100, 200] as const;
const SAMPLE_USUAL = 50;
const NODES_SHOWN_MAX = 200;

const route = getRouteApi("/workflows/$workflowId");

export function StatisticsTab({ workflow }: { workflow: Workflow }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const jobs = SAMPLES.find((number) => number === search.jobs) ?? SAMPLE_USUAL;
  const version = /^\d+$/.test(search.version ?? "") ? Number(search.version) : null;
  const statistics = useQuery({ ...statisticsQuery(workflow.workflow_id, jobs, version), refetchInterval: 10_000 });
  const versions = useQuery(versionsQuery(workflow.workflow_id));
  const numbers = versions.data?.map((one) => String(one.version)) ?? [];
  const set = (change: Record<string, string>) =>
    void navigate({ search: (before) => workflowSearchOf({ ...before, ...change }), replace: true });
  return (
    <>
      <div className="mb-3 flex flex-wrap gap-2">
        <Choice
          label="Jobs that count"
          hidden
          value={String(jobs)}
          options={SAMPLES.map((number) => [String(number), `Last ${number} that ended`] as const)}
          onChange={(event) => set({ jobs: event.target.value })}
        />
        <Choice
          label="Version"
          hidden
          value={version === null ? "" : String(version)}
          options={[["", "Any version"], ...numbers.map((number) => [number, `Version ${number}`] as const)]}
          onChange={(event) => set({ version: event.target.value })}
        />
      </div>
      <Loaded query={statistics}>
        {(found) =>
          found.jobs === 0 ? (
            <Panel>
              <Empty title="No job has ended yet">Figures come with the first one.</Empty>
            </Panel>
          ) : (
            <Shown statistics={found} />
          )
        }
      </Loaded>
    </>
  );
}

function Shown({ statistics }: { statistics: Statistics }) {
  const { duration_seconds: spread } = statistics;
  return (
    <div className="space-y-4">
      <dl className="grid grid-cols-2 gap-3 sm:grid-cols-3 lg:grid-cols-6">
        <Outcome status="completed" number={statistics.completed} />
        <Outcome status="failed" number={statistics.failed} />
        <Outcome status="cancelled" number={statistics.cancelled} />
        <Figure name="Half within (p50)">{spread ? duration(spread.p50) : "–"}</Figure>
        <Figure name="95 % within (p95)">{spread ? duration(spread.p95) : "–"}</Figure>
        <Figure name="Longest">{spread ? duration(spread.max) : "–"}</Figure>
      </dl>
      {statistics.critical_path.length > 0 && <CriticalPath statistics={statistics} />}
      <Nodes statistics={statistics} />
    </div>
  );
}

function Outcome({ status, number }: { status: string; number: number }) {
  return (
    <Figure name={status}>
      <span className="inline-flex items-center gap-2">
        <StatusIcon status={status} />
        {count(number)}
      </span>
    </Figure>
  );
}

/** The chain of nodes that a middling job waited for. */
function CriticalPath({ statistics: { critical_path: path, nodes } }: { statistics: Statistics }) {
  const byId = new Map(nodes.map((node) => [node.node_id, node]));
  return (
    <Panel title="Critical path">
      <p className="px-4 pt-3 text-muted">
        What a middling job waited for, {plural(path.length, "node")} in a row. Only what is here makes it shorter.
      </p>
      <ol className="flex flex-wrap items-center gap-y-2 px-4 py-3">
        {path.slice(0, NODES_SHOWN_MAX).map((nodeId, place) => (
          <li key={nodeId} className="flex min-w-0 items-center">
            {place > 0 && (
              <span aria-hidden="true" className="px-1.5 text-muted">
                →
              </span>
            )}
            <span className="min-w-0 rounded-md border border-line bg-paper px-2.5 py-1">
              <span className="block break-all font-medium">{nodeId}</span>
              <span className="block text-xs tabular-nums text-muted">{typical(byId.get(nodeId))}</span>
            </span>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function typical(node: NodeStatistics | undefined): string {
  return node?.duration_seconds ? duration(node.duration_seconds.p50) : "–";
}

function Nodes({ statistics }: { statistics: Statistics }) {
  const [byTime, setByTime] = useState(true);
  const path = new Set(statistics.critical_path);
  const longest = Math.max(Number.EPSILON, ...statistics.nodes.map((node) => node.duration_seconds?.p95 ?? 0));
  const nodes = [...statistics.nodes].sort((a, b) =>
    byTime
      ? (b.duration_seconds?.p50 ?? 0) - (a.duration_seconds?.p50 ?? 0)
      : b.failed - a.failed || b.retried - a.retried,
  );
  return (
    <Panel
      title="Nodes"
      actions={
        <Choice
          label="Order of nodes"
          hidden
          value={byTime ? "time" : "failed"}
          options={[
            ["time", "Longest first"],
            ["failed", "Most failures first"],
          ]}
          onChange={(event) => setByTime(event.target.value === "time")}
        />
      }
    >
      <Table
        label="Nodes"
        columns={[
          { name: "Node" },
          { name: "p50 and p95", className: "w-1/3 min-w-48" },
          { name: "p50", right: true },
          { name: "p95", right: true },
          { name: "Runs", right: true },
          { name: "Failed", right: true },
          { name: "Retried", right: true },
          { name: "Of the critical path", right: true },
        ]}
      >
        {nodes.slice(0, NODES_SHOWN_MAX).map((node) => (
          <NodeRow key={node.node_id} node={node} longest={longest} isOnPath={path.has(node.node_id)} />
        ))}
      </Table>
      {nodes.length > NODES_SHOWN_MAX && (
        <p className="border-t border-line px-4 py-2 text-muted">
          The first {NODES_SHOWN_MAX} of {count(nodes.length)}.
        </p>
      )}
    </Panel>
  );
}

function NodeRow({ node, longest, isOnPath }: { node: NodeStatistics; longest: number; isOnPath: boolean }) {
  const spread = node.duration_seconds;
  return (
    <tr>
      <RowHead className="max-w-80 break-all">{node.node_id}</RowHead>
      <Cell>{spread && <Bar p50={spread.p50 / longest} p95={spread.p95 / longest} isOnPath={isOnPath} />}</Cell>
      <Cell right className="whitespace-nowrap">
        {spread ? duration(spread.p50) : "–"}
      </Cell>
      <Cell right className="whitespace-nowrap">
        {spread ? duration(spread.p95) : "–"}
      </Cell>
      <Cell right>{count(node.runs)}</Cell>
      <Cell right className={node.failed > 0 ? "font-medium text-failed" : "text-muted"}>
        {count(node.failed)}
      </Cell>
      <Cell right className={node.retried > 0 ? "font-medium text-waiting" : "text-muted"}>
        {count(node.retried)}
      </Cell>
      <Cell right>
        {isOnPath ? (
          `${Math.round(100 * node.share_of_critical_path)} %`
        ) : (
          <span className="text-muted">not on it</span>
        )}
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
