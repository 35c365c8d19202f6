// The comparison of two jobs: summary, first difference, graphs, inputs and all differences.

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Job } from "../../api/types";
import { Panel } from "../../components/controls";
import { ErrorAlert } from "../../components/query_result";
import { ScrollBox } from "../../components/scroll_box";
import { Status } from "../../components/status";
import { Duration, Timestamp } from "../../components/time";
import { pluralize } from "../../lib/format";
import { Failures } from "../failures";
import { GraphView } from "../graph/graph_view";
import { JobLink } from "../links";
import { type ComparedJob, type Comparison, compareJobs, type Difference } from "../model/compare";
import { DifferenceTable } from "./difference_table";
import { describeDifference, KIND_NAMES, previewOf, sideText } from "./difference_text";
import { useComparedJob } from "./use_compared_job";
import { valueDifferences } from "./value_diff";

const DIFFERENCES_MAX = 500;

export function ComparisonView({ left, right }: { left: string; right: string }) {
  const leftQuery = useComparedJob(left);
  const rightQuery = useComparedJob(right);
  const error = leftQuery.error ?? rightQuery.error;
  if (!leftQuery.job || !rightQuery.job) {
    return error ? <ErrorAlert error={error} /> : <p className="p-6 text-muted">Loading…</p>;
  }
  return (
    <div className="space-y-3">
      {leftQuery.job.workflow_id !== rightQuery.job.workflow_id && (
        <ErrorAlert error="The jobs belong to different workflows." title="Different workflows" />
      )}
      <Summary left={leftQuery.job} right={rightQuery.job} />
      {error ? <ErrorAlert error={error} /> : null}
      {leftQuery.compared && rightQuery.compared ? (
        <NodeComparison left={leftQuery.compared} right={rightQuery.compared} />
      ) : (
        <p className="text-muted">Loading nodes…</p>
      )}
      <Inputs left={leftQuery.job} right={rightQuery.job} />
    </div>
  );
}

function Summary({ left, right }: { left: Job; right: Job }) {
  const row = (name: string, render: (job: Job) => ReactNode) => (
    <tr className="border-t border-line/60">
      <th scope="row" className="w-24 px-4 py-1.5 text-left font-normal text-muted">
        {name}
      </th>
      <td className="px-2">{render(left)}</td>
      <td className="px-2">{render(right)}</td>
    </tr>
  );
  return (
    <Panel>
      <ScrollBox label="Summary" className="overflow-x-auto">
        <table className="w-full">
          <thead>
            <tr className="text-left text-xs text-muted">
              <td />
              <th scope="col" className="w-2/5 px-2 py-2 font-medium">
                Left
              </th>
              <th scope="col" className="w-2/5 px-2 py-2 font-medium">
                Right
              </th>
            </tr>
          </thead>
          <tbody>
            {row("Job", (job) => (
              <JobLink jobId={job.job_id} />
            ))}
            {row("Status", (job) => (
              <span className="flex">
                <Status status={job.status} />
                <Failures status={job.status} failures={job.failures} />
              </span>
            ))}
            {row("Workflow", (job) => `${job.workflow_id}@${job.version}`)}
            {row("Created", (job) => (
              <Timestamp at={job.created_at} />
            ))}
            {row("Duration", (job) => (
              <Duration start={job.started_at} end={job.completed_at} />
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </Panel>
  );
}

function Inputs({ left, right }: { left: Job; right: Job }) {
  const differences = valueDifferences(left.input_data, right.input_data);
  return (
    <Panel title="Input">
      {differences.length === 0 ? (
        <p className="px-4 py-3 text-muted">No differences</p>
      ) : (
        <DifferenceTable
          label="Input differences"
          headers={["Path", "Left", "Right"]}
          rows={differences.map(({ path, left, right }) => [path || "(all)", previewOf(left), previewOf(right)])}
        />
      )}
    </Panel>
  );
}

interface ComparisonProps {
  comparison: Comparison;
  left: ComparedJob;
  right: ComparedJob;
}

function NodeComparison({ left, right }: { left: ComparedJob; right: ComparedJob }) {
  const comparison = compareJobs(left, right);
  return (
    <>
      <FirstDifference comparison={comparison} left={left} right={right} />
      <Graphs comparison={comparison} left={left} right={right} />
      <AllDifferences comparison={comparison} left={left} right={right} />
    </>
  );
}

function FirstDifference({ comparison: { first }, left, right }: ComparisonProps) {
  if (!first) {
    return (
      <Panel title="No differences">
        <p className="px-4 py-3">All nodes have the same status and output in both jobs.</p>
      </Panel>
    );
  }
  return (
    <Panel title={`First difference: ${first.nodeId}`} className="border-waiting/60">
      <div className="space-y-2 px-4 py-3">
        <p>{describeDifference(first, left, right)}</p>
        <dl className="grid gap-x-4 gap-y-1 sm:grid-cols-2">
          <Side name="Left">{sideText(first, left)}</Side>
          <Side name="Right">{sideText(first, right)}</Side>
        </dl>
      </div>
    </Panel>
  );
}

function Side({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-xs text-muted">{name}</dt>
      <dd className="break-words font-mono text-xs">{children}</dd>
    </div>
  );
}

function Graphs({ comparison: { first, all }, left, right }: ComparisonProps) {
  const labels = new Map<string, string>();
  for (const { nodeId, kind } of all) {
    labels.set(nodeId, labels.get(nodeId) ?? KIND_NAMES[kind].toLowerCase());
  }
  if (first) {
    labels.set(first.nodeId, `first: ${KIND_NAMES[first.kind].toLowerCase()}`);
  }
  const graph = ({ state }: ComparedJob, label: string) => (
    <div className="h-80">
      <GraphView
        graph={state.graph}
        state={state}
        selected={first && state.graph.index.has(first.nodeId) ? first.nodeId : null}
        labels={labels}
        label={label}
        className="h-full rounded-lg border border-line"
      />
    </div>
  );
  return (
    <div className="grid gap-3 lg:grid-cols-2">
      {graph(left, "Graph of the left job")}
      {graph(right, "Graph of the right job")}
    </div>
  );
}

function AllDifferences({ comparison: { all }, left, right }: ComparisonProps) {
  if (all.length === 0) {
    return null;
  }
  const nodeLink = ({ kind, nodeId }: Difference) => (
    <Link
      to="/jobs/$jobId"
      params={{ jobId: (kind === "only_right" ? right : left).jobId }}
      search={{ node: nodeId }}
      className="font-medium text-accent hover:underline"
    >
      {nodeId}
    </Link>
  );
  const rows = all
    .slice(0, DIFFERENCES_MAX)
    .map((difference) => [
      nodeLink(difference),
      KIND_NAMES[difference.kind],
      sideText(difference, left),
      sideText(difference, right),
    ]);
  return (
    <Panel title={pluralize(all.length, "difference")}>
      <DifferenceTable label="Node differences" headers={["Node", "Difference", "Left", "Right"]} rows={rows} />
      {all.length > DIFFERENCES_MAX && <p className="px-4 py-2 text-muted">First {DIFFERENCES_MAX} shown</p>}
    </Panel>
  );
}
