// What two jobs have in common and what not: how they went, their inputs, and their nodes.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { at, get } from "../../api/client";
import type { Job, Node, Page } from "../../api/types";
import { Panel } from "../../components/controls";
import { Loaded, ProblemBox } from "../../components/query_result";
import { ScrollBox } from "../../components/scroll_box";
import { Status } from "../../components/status";
import { Moment, Took } from "../../components/time";
import { plural } from "../../lib/format";
import { GraphView } from "../graph/graph_view";
import type { LiveJob } from "../job/live_job";
import { useJob, useVersion } from "../job/use_job";
import { JobLink } from "../links";
import { type Comparison, type Difference, firstDifference } from "../model/compare";
import { DifferenceTable } from "./difference_table";
import { explained, KIND_WORDS, previewOf, type Side, sideText } from "./difference_text";
import { valueDifferences } from "./value_diff";

const NODES_PAGE = 1_000;
const SHOWN_MAX = 500;

export function Compared({ left, right }: { left: string; right: string }) {
  const one = useJob(left);
  const other = useJob(right);
  return (
    <Loaded query={one.job}>
      {(leftJob) => (
        <Loaded query={other.job}>
          {(rightJob) => (
            <div className="space-y-3">
              {leftJob.workflow_id !== rightJob.workflow_id && (
                <ProblemBox error="These are jobs of two workflows." title="There is little to compare" />
              )}
              <Summary left={leftJob} right={rightJob} />
              {one.live && other.live ? (
                <Nodes left={one.live} right={other.live} />
              ) : (
                <p className="text-muted">Reading both jobs…</p>
              )}
              <Inputs left={leftJob} right={rightJob} />
            </div>
          )}
        </Loaded>
      )}
    </Loaded>
  );
}

function Summary({ left, right }: { left: Job; right: Job }) {
  const row = (name: string, tell: (job: Job) => ReactNode) => (
    <tr className="border-t border-line/60">
      <th scope="row" className="w-24 px-4 py-1.5 text-left font-normal text-muted">
        {name}
      </th>
      <td className="px-2">{tell(left)}</td>
      <td className="px-2">{tell(right)}</td>
    </tr>
  );
  return (
    <Panel>
      <ScrollBox label="Both jobs" className="overflow-x-auto">
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
            {row("State", (job) => (
              <span className="flex">
                <Status status={job.status} />
              </span>
            ))}
            {row("Workflow", (job) => `${job.workflow_id}@${job.version}`)}
            {row("Created", (job) => (
              <Moment at={job.created_at} />
            ))}
            {row("Duration", (job) => (
              <Took start={job.started_at} end={job.completed_at} />
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </Panel>
  );
}

function Inputs({ left, right }: { left: Job; right: Job }) {
  const found = valueDifferences(left.input_data, right.input_data);
  return (
    <Panel title="Inputs">
      {found.length === 0 ? (
        <p className="px-4 py-3 text-muted">Both had the same input.</p>
      ) : (
        <DifferenceTable
          label="Differences of the inputs"
          heads={["Where", "Left", "Right"]}
          rows={found.map((one) => [one.path || "(all)", previewOf(one.left), previewOf(one.right)])}
        />
      )}
    </Panel>
  );
}

function Nodes({ left, right }: { left: LiveJob; right: LiveJob }) {
  useVersion(left);
  useVersion(right);
  const leftNodes = useNodes(left);
  const rightNodes = useNodes(right);
  const sides = useMemo((): [Side, Side] | null => {
    if (!leftNodes.data || !rightNodes.data) {
      return null;
    }
    return [sideOf(left, leftNodes.data), sideOf(right, rightNodes.data)];
  }, [left, right, leftNodes.data, rightNodes.data]);
  const problem = leftNodes.error ?? rightNodes.error ?? left.problem ?? right.problem;
  if (problem) {
    return <ProblemBox error={problem} />;
  }
  if (!sides || !left.isLoaded || !right.isLoaded) {
    return <p className="text-muted">Reading their nodes…</p>;
  }
  const [one, other] = sides;
  const comparison = firstDifference(one.state, [...one.nodes.values()], other.state, [...other.nodes.values()]);
  return (
    <>
      <First comparison={comparison} left={one} right={other} />
      <Graphs comparison={comparison} left={left} right={right} />
      <All comparison={comparison} left={one} right={other} />
    </>
  );
}

function sideOf(live: LiveJob, nodes: Node[]): Side {
  return { jobId: live.jobId, state: live.history.latest, nodes: new Map(nodes.map((node) => [node.node_id, node])) };
}

/** All nodes with their outputs; read again when the job ends. */
function useNodes(live: LiveJob) {
  return useQuery({
    queryKey: ["job", live.jobId, "nodes", live.hasEnded],
    queryFn: async ({ signal }) => {
      const nodes: Node[] = [];
      let cursor: string | null = null;
      do {
        const query: { limit: number; cursor: string | null } = { limit: NODES_PAGE, cursor };
        const page: Page<Node> = await get<Page<Node>>(at("jobs", live.jobId, "nodes"), query, signal);
        nodes.push(...page.items);
        cursor = page.next_cursor;
      } while (cursor !== null);
      return nodes;
    },
  });
}

interface NodesProps {
  comparison: Comparison;
  left: Side;
  right: Side;
}

function First({ comparison, left, right }: NodesProps) {
  const { first } = comparison;
  if (!first) {
    return (
      <Panel title="No difference">
        <p className="px-4 py-3">Every node went the same way in both jobs and gave back the same.</p>
      </Panel>
    );
  }
  return (
    <Panel title={`The first difference: ${first.nodeId}`} className="border-waiting/60">
      <div className="space-y-2 px-4 py-3">
        <p>{explained(first, left, right)}</p>
        <dl className="grid gap-x-4 gap-y-1 sm:grid-cols-2">
          {[left, right].map((side, place) => (
            <div key={place === 0 ? "left" : "right"} className="min-w-0">
              <dt className="text-xs text-muted">{place === 0 ? "Left" : "Right"}</dt>
              <dd className="break-words font-mono text-xs">{sideText(first, side)}</dd>
            </div>
          ))}
        </dl>
      </div>
    </Panel>
  );
}

function Graphs({ comparison, left, right }: { comparison: Comparison; left: LiveJob; right: LiveJob }) {
  const { first, all } = comparison;
  const marked = new Map<string, string>();
  for (const { nodeId, kind } of all) {
    marked.set(nodeId, marked.get(nodeId) ?? KIND_WORDS[kind].toLowerCase());
  }
  if (first) {
    marked.set(first.nodeId, `first: ${KIND_WORDS[first.kind].toLowerCase()}`);
  }
  return (
    <div className="grid gap-3 lg:grid-cols-2">
      {[left, right].map((live, place) => (
        <div key={live.jobId} className="h-80">
          <GraphView
            graph={live.graph}
            state={live.history.latest}
            selected={first && live.graph.index.has(first.nodeId) ? first.nodeId : null}
            marked={marked}
            label={place === 0 ? "Graph of the left job" : "Graph of the right job"}
            className="h-full rounded-lg border border-line"
          />
        </div>
      ))}
    </div>
  );
}

function All({ comparison: { all }, left, right }: NodesProps) {
  const node = (one: Difference) => (
    <Link
      to="/jobs/$jobId"
      params={{ jobId: (one.kind === "only_right" ? right : left).jobId }}
      search={{ node: one.nodeId }}
      className="font-medium text-accent hover:underline"
    >
      {one.nodeId}
    </Link>
  );
  if (all.length === 0) {
    return null;
  }
  return (
    <Panel title={plural(all.length, "difference")}>
      <DifferenceTable
        label="Differences by node"
        heads={["Node", "What", "Left", "Right"]}
        rows={all
          .slice(0, SHOWN_MAX)
          .map((one) => [node(one), KIND_WORDS[one.kind], sideText(one, left), sideText(one, right)])}
      />
      {all.length > SHOWN_MAX && <p className="px-4 py-2 text-muted">The first {SHOWN_MAX} are shown.</p>}
    </Panel>
  );
}
