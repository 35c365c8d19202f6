// The details of a node at the time shown.

import { useMutation } from "@tanstack/react-query";
import { useEffect } from "react";
import { apiPath, send, withQuery } from "../../api/client";
import { Button } from "../../components/controls";
import { Detail } from "../../components/details";
import { ErrorAlert } from "../../components/query_result";
import { Status, StatusIcon } from "../../components/status";
import { Duration, Timestamp } from "../../components/time";
import { pluralize } from "../../lib/format";
import type { JobViewProps } from "../job/job_view_props";
import { NodeLogs } from "../job/logs_view";
import { isFinal } from "../job_status";
import type { GraphNode } from "../model/graph";
import type { LoopCounts, NodeState } from "../model/state";
import { AttemptsTable, Countdown } from "./attempts_table";
import { LoopSection } from "./loop_section";
import { NodeErrorBox } from "./node_error_box";
import { NodeOutput, NodeParams } from "./node_values";
import { Collapsible } from "./section";

export interface NodePanelProps extends JobViewProps {
  nodeId: string;

  onSelect(nodeId: string): void;
  onClose(): void;
  onResumed(): void;
}

export function NodePanel(props: NodePanelProps) {
  const { live, state, nodeId, onClose } = props;
  useEscape(onClose);
  const number = live.graph.index.get(nodeId);
  const node = number === undefined ? undefined : live.graph.nodes[number];
  const nodeState = number === undefined ? undefined : state.nodes[number];
  return (
    <aside
      aria-label={`Node ${nodeId}`}
      className="fixed inset-x-0 bottom-0 z-20 max-h-[75dvh] overflow-y-auto rounded-t-xl border border-line bg-surface shadow-2xl lg:static lg:max-h-none lg:rounded-lg lg:shadow-none"
    >
      <header className="sticky top-0 z-10 flex items-center justify-between gap-2 border-b border-line bg-surface px-4 py-2">
        <h2 className="flex min-w-0 items-center gap-2 font-semibold">
          <StatusIcon status={nodeState?.status ?? "pending"} />
          <span className="min-w-0 break-words">{nodeId}</span>
          {node && <span className="font-mono text-xs font-normal text-muted">{node.handler}</span>}
        </h2>
        <Button variant="ghost" aria-label="Close panel" onClick={onClose}>
          ✕
        </Button>
      </header>
      {node && nodeState ? (
        <Sections {...props} node={node} nodeState={nodeState} />
      ) : (
        <p className="p-4 text-muted">Node not found</p>
      )}
    </aside>
  );
}

function Sections(props: NodePanelProps & { node: GraphNode; nodeState: NodeState }) {
  const { live, state, at, node, nodeState, onSelect } = props;
  const isPast = at !== undefined;
  // In the past, active attempts end at the time shown.
  const until = isPast ? state.at : null;
  const { jobId } = live;
  return (
    <div className="space-y-4 p-4">
      <NodeDetails nodeState={nodeState} until={until} />
      {nodeState.error && <NodeErrorBox error={nodeState.error} />}
      {!isPast && live.isFinal && <RetryButtons {...props} />}
      {nodeState.loop && (
        <LoopSection
          jobId={jobId}
          nodeId={node.id}
          node={nodeState}
          isPast={isPast}
          hasCounts={!isPast || live.hasIterationEvents || isComplete(nodeState.loop)}
        />
      )}
      {nodeState.attempts.length > 0 && <AttemptsTable attempts={nodeState.attempts} until={until} />}
      {node.kind === "task" && <NodeParams jobId={jobId} nodeId={node.id} nodeState={nodeState} isLoop={node.isLoop} />}
      <NodeOutput jobId={jobId} nodeId={node.id} nodeState={nodeState} latest={latestOf(props)} />
      <Neighbors props={props} node={node} onSelect={onSelect} />
      {node.kind === "task" && (
        <Collapsible title="Logs">
          <NodeLogs key={node.id} jobId={jobId} node={node.id} isLive={!live.isFinal} isJobFinal={live.isFinal} />
        </Collapsible>
      )}
    </div>
  );
}

/** Whether all iterations ended. The end of the loop has their counts. */
function isComplete({ total, completed, failed, skipped }: LoopCounts): boolean {
  return completed + failed + skipped === total;
}

function latestOf({ live, nodeId }: NodePanelProps): NodeState | undefined {
  return live.history.latest.nodes[live.graph.index.get(nodeId) ?? -1];
}

function NodeDetails({ nodeState, until }: { nodeState: NodeState; until: string | null }) {
  return (
    <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1">
      <Detail name="Status">
        <span className="flex flex-wrap items-center gap-x-2">
          <Status status={nodeState.status} />
          {nodeState.reason && <span className="min-w-0 break-words text-muted">{nodeState.reason}</span>}
        </span>
      </Detail>
      {nodeState.waitUntil !== null && nodeState.status === "waiting" && (
        <Detail name="Next attempt">
          {until === null ? <Countdown until={nodeState.waitUntil} /> : <Timestamp at={nodeState.waitUntil} />}
        </Detail>
      )}
      {nodeState.attempt > 0 && <Detail name="Attempt">{nodeState.attempt}</Detail>}
      {nodeState.startedAt !== null && (
        <Detail name="Started">
          <Timestamp at={nodeState.startedAt} />
        </Detail>
      )}
      {nodeState.startedAt !== null && (nodeState.endedAt !== null || nodeState.status === "running") && (
        <Detail name="Duration">
          <Duration start={nodeState.startedAt} end={nodeState.endedAt ?? until} />
          {nodeState.attempts.at(-1)?.startedAt !== nodeState.startedAt && (
            <span className="text-muted"> over all attempts</span>
          )}
        </Detail>
      )}
      <ExhaustedPages nodeState={nodeState} />
    </dl>
  );
}

/** The pages that were left. The error of a node that failed for them says what to do. */
function ExhaustedPages({ nodeState: { status, exhaustedPages, exhaustedIterations } }: { nodeState: NodeState }) {
  const pages = exhaustedPages !== null && `${pluralize(exhaustedPages, "page")} read, more remain.`;
  const iterations = exhaustedIterations > 0 && `More remain in ${pluralize(exhaustedIterations, "iteration")}.`;
  const text = pages || iterations;
  return text ? (
    <Detail name="Pages">
      <span className="text-failed">
        {text}
        {status !== "failed" && " Raise retry.on_success.max_attempts."}
      </span>
    </Detail>
  ) : null;
}

/** Retry buttons of a finished job. */
function RetryButtons({
  live,
  nodeId,
  node,
  nodeState,
  onResumed,
}: NodePanelProps & { node: GraphNode; nodeState: NodeState }) {
  const retry = useMutation({
    mutationFn: (from: string | undefined) => send("POST", withQuery(apiPath("jobs", live.jobId, "retry"), { from })),
    onSuccess: onResumed,
  });
  const failedCount = (nodeState.loop?.failed ?? 0) + (nodeState.loop?.cancelled ?? 0);
  // A retry of a failed job keeps the failures that it tolerated.
  const isRetried = nodeState.status !== "completed" || live.history.latest.status === "completed";
  const hasFailedIterations = node.isLoop && failedCount > 0 && isRetried;
  if (node.kind !== "task" || !isFinal(live.history.latest.status)) {
    return null;
  }
  return (
    <div className="space-y-2">
      <div className="flex flex-wrap gap-2">
        {hasFailedIterations && (
          <Button
            variant="primary"
            disabled={retry.isPending}
            title="Run the failed iterations again, and other failures of the job"
            onClick={() => retry.mutate(undefined)}
          >
            Retry failed iterations
          </Button>
        )}
        <Button
          disabled={retry.isPending}
          title="Run this node and all downstream nodes again"
          onClick={() => retry.mutate(nodeId)}
        >
          Retry from here
        </Button>
      </div>
      {retry.error && <ErrorAlert error={retry.error} title="Retry failed" />}
    </div>
  );
}

const NEIGHBORS_MAX = 20;

function Neighbors({
  props,
  node,
  onSelect,
}: {
  props: NodePanelProps;
  node: GraphNode;
  onSelect(nodeId: string): void;
}) {
  const { live, state } = props;
  const list = (title: string, numbers: number[]) =>
    numbers.length > 0 && (
      <div>
        <h3 className="mb-1 text-xs font-medium text-muted">{title}</h3>
        <ul className="flex flex-wrap gap-1">
          {numbers.slice(0, NEIGHBORS_MAX).map((number) => {
            const id = live.graph.nodes[number]?.id ?? "";
            return (
              <li key={id}>
                <Button className="!h-7 max-w-56 !px-2 text-xs" onClick={() => onSelect(id)}>
                  <StatusIcon status={state.nodes[number]?.status ?? "pending"} size={13} />
                  <span className="truncate">{id}</span>
                </Button>
              </li>
            );
          })}
          {numbers.length > NEIGHBORS_MAX && (
            <li className="self-center text-xs text-muted">and {numbers.length - NEIGHBORS_MAX} more</li>
          )}
        </ul>
      </div>
    );
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      {list("Upstream", node.parents)}
      {list("Downstream", node.children)}
    </div>
  );
}

function useEscape(onClose: () => void): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key === "Escape" && !event.defaultPrevented && !target.closest("dialog, input, textarea")) {
        onClose();
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [onClose]);
}
