// Everything about one node of a job, at the moment that is shown.

import { useMutation } from "@tanstack/react-query";
import { useEffect } from "react";
import { address, at as pathAt, send } from "../../api/client";
import { Button } from "../../components/controls";
import { Fact } from "../../components/details";
import { ProblemBox } from "../../components/query_result";
import { Status, StatusIcon } from "../../components/status";
import { Moment, Took } from "../../components/time";
import type { Shown } from "../job/job_view_props";
import { NodeLogs } from "../job/logs_view";
import { hasEnded } from "../job_status";
import type { GraphNode } from "../model/graph";
import type { LoopCounts, NodeState } from "../model/state";
import { Attempts, Countdown } from "./attempts_table";
import { LoopSection } from "./loop_section";
import { ErrorBox } from "./node_error_box";
import { NodeOutput, NodeParams } from "./node_values";
import { Folded } from "./section";

export interface NodePanelProps extends Shown {
  nodeId: string;
  round: number;
  onSelect(nodeId: string): void;
  onClose(): void;
  goOn(): void;
}

export function NodePanel(props: NodePanelProps) {
  const { live, state, nodeId, onClose } = props;
  useEscape(onClose);
  const number = live.graph.index.get(nodeId);
  const node = number === undefined ? undefined : live.graph.nodes[number];
  const shown = number === undefined ? undefined : state.nodes[number];
  return (
    <aside
      aria-label={`Node ${nodeId}`}
      className="fixed inset-x-0 bottom-0 z-20 max-h-[75dvh] overflow-y-auto rounded-t-xl border border-line bg-surface shadow-2xl lg:static lg:max-h-none lg:rounded-lg lg:shadow-none"
    >
      <header className="sticky top-0 z-10 flex items-center justify-between gap-2 border-b border-line bg-surface px-4 py-2">
        <h2 className="flex min-w-0 items-center gap-2 font-semibold">
          <StatusIcon status={shown?.status ?? "pending"} />
          <span className="min-w-0 break-words">{nodeId}</span>
          {node && <span className="font-mono text-xs font-normal text-muted">{node.handler}</span>}
        </h2>
        <Button look="quiet" aria-label="Close the panel" onClick={onClose}>
          ✕
        </Button>
      </header>
      {node && shown ? (
        <Sections {...props} node={node} shown={shown} />
      ) : (
        <p className="p-4 text-muted">This job has no such node.</p>
      )}
    </aside>
  );
}

function Sections(props: NodePanelProps & { node: GraphNode; shown: NodeState }) {
  const { live, state, at, node, shown, round, onSelect } = props;
  const isPast = at !== undefined;
  // In the past, what goes on has gone on until then.
  const until = isPast ? state.at : null;
  const { jobId } = live;
  return (
    <div className="space-y-4 p-4">
      <Facts shown={shown} until={until} />
      {shown.error && <ErrorBox error={shown.error} />}
      {!isPast && live.hasEnded && <Retries {...props} />}
      {shown.loop && (
        <LoopSection
          jobId={jobId}
          nodeId={node.id}
          shown={shown}
          isPast={isPast}
          isCounted={!isPast || live.hasItems || isThrough(shown.loop)}
        />
      )}
      {shown.attempts.length > 0 && <Attempts attempts={shown.attempts} until={until} />}
      {node.kind === "task" && <NodeParams jobId={jobId} nodeId={node.id} shown={shown} isLoop={node.isLoop} />}
      <NodeOutput jobId={jobId} nodeId={node.id} shown={shown} latest={latestOf(props)} />
      <Neighbours props={props} node={node} onSelect={onSelect} />
      {node.kind === "task" && (
        <Folded title="Logs">
          <NodeLogs key={node.id} jobId={jobId} node={node.id} isLive={!live.hasEnded} round={round} />
        </Folded>
      )}
    </div>
  );
}

/** Whether every item has ended: its counts come with the loop's own end. */
function isThrough({ total, completed, failed, skipped }: LoopCounts): boolean {
  return completed + failed + skipped === total;
}

function latestOf({ live, nodeId }: NodePanelProps): NodeState | undefined {
  return live.history.latest.nodes[live.graph.index.get(nodeId) ?? -1];
}

function Facts({ shown, until }: { shown: NodeState; until: string | null }) {
  return (
    <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1">
      <Fact name="State">
        <Status status={shown.status} />
        {shown.reason && <span className="break-words text-muted"> {shown.reason}</span>}
      </Fact>
      {shown.waitUntil !== null && shown.status === "waiting" && (
        <Fact name="Next attempt">
          {until === null ? <Countdown until={shown.waitUntil} /> : <Moment at={shown.waitUntil} />}
        </Fact>
      )}
      {shown.attempt > 0 && <Fact name="Attempt">{shown.attempt}</Fact>}
      {shown.startedAt !== null && (
        <Fact name="Started">
          <Moment at={shown.startedAt} />
        </Fact>
      )}
      {shown.startedAt !== null && (shown.endedAt !== null || shown.status === "running") && (
        <Fact name={shown.endedAt === null ? "For" : "Took"}>
          <Took start={shown.startedAt} end={shown.endedAt ?? until} />
        </Fact>
      )}
    </dl>
  );
}

/** What can be run again once the job has ended. */
function Retries({ live, nodeId, node, shown, goOn }: NodePanelProps & { node: GraphNode; shown: NodeState }) {
  const retry = useMutation({
    mutationFn: (from: string | undefined) => send("POST", address(pathAt("jobs", live.jobId, "retry"), { from })),
    onSuccess: goOn,
  });
  const broken = (shown.loop?.failed ?? 0) + (shown.loop?.cancelled ?? 0);
  const hasBrokenItems = node.isLoop && broken > 0 && shown.status !== "completed";
  if (node.kind !== "task" || !hasEnded(live.history.latest.status)) {
    return null;
  }
  return (
    <div className="space-y-2">
      <div className="flex flex-wrap gap-2">
        {hasBrokenItems && (
          <Button look="main" disabled={retry.isPending} onClick={() => retry.mutate(undefined)}>
            Retry failed items
          </Button>
        )}
        <Button
          disabled={retry.isPending}
          title="Runs this node and everything after it again"
          onClick={() => retry.mutate(nodeId)}
        >
          Retry from here
        </Button>
      </div>
      {retry.error && <ProblemBox error={retry.error} title="It was not retried" />}
    </div>
  );
}

const NEIGHBOURS_SHOWN = 20;

function Neighbours({
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
          {numbers.slice(0, NEIGHBOURS_SHOWN).map((number) => {
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
          {numbers.length > NEIGHBOURS_SHOWN && (
            <li className="self-center text-xs text-muted">and {numbers.length - NEIGHBOURS_SHOWN} more</li>
          )}
        </ul>
      </div>
    );
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      {list("Before it", node.parents)}
      {list("After it", node.children)}
    </div>
  );
}

function useEscape(onClose: () => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key === "Escape" && !event.defaultPrevented && !target.closest("dialog, input, textarea")) {
        onClose();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [onClose]);
}
