// The progress of a loop and its iterations.

import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { apiPath, get } from "../../api/client";
import { LIVE_INTERVAL_MS } from "../../api/queries";
import type { Iteration, Page } from "../../api/types";
import { LoadMore, Select } from "../../components/controls";
import { QueryResult } from "../../components/query_result";
import { FILL_CLASSES, StatusIcon, statusText } from "../../components/status";
import { Duration } from "../../components/time";
import { formatCount, pluralize } from "../../lib/format";
import { exhaustedPages } from "../model/api_state";
import type { LoopCounts, NodeState } from "../model/state";
import { NodeErrorBox } from "./node_error_box";
import { ValueView } from "./node_values";
import { Collapsible, Section } from "./section";

const PAGE_SIZE = 50;
const COUNTED_STATUSES = ["completed", "failed", "running", "waiting", "skipped", "cancelled"] as const;
const STATUSES = ["pending", "dispatched", "running", "waiting", "completed", "failed", "skipped", "cancelled"];

interface LoopProps {
  jobId: string;
  nodeId: string;
  node: NodeState;
  isPast: boolean;
  /** Whether the counts are known for the time shown. */
  hasCounts: boolean;
}

export function LoopSection({ jobId, nodeId, node, isPast, hasCounts }: LoopProps) {
  if (node.loop === null) {
    return null;
  }
  return (
    <Section title="Loop">
      {hasCounts ? (
        <Counts loop={node.loop} />
      ) : (
        <p className="text-muted">{pluralize(node.loop.total, "iteration")}. Load iteration events to see progress.</p>
      )}
      {!isPast && (
        <div className="mt-2">
          <Collapsible title="Iterations">
            <Iterations
              key={nodeId}
              jobId={jobId}
              nodeId={nodeId}
              isLive={node.endedAt === null}
              attempt={node.attempt}
            />
          </Collapsible>
        </div>
      )}
    </Section>
  );
}

function Counts({ loop }: { loop: LoopCounts }) {
  const pending = loop.total - COUNTED_STATUSES.reduce((sum, status) => sum + loop[status], 0);
  const statuses = COUNTED_STATUSES.filter((status) => loop[status] > 0);
  return (
    <>
      <div className="flex h-2.5 overflow-hidden rounded-full bg-sunken" aria-hidden="true">
        {statuses.map((status) => (
          <div
            key={status}
            className={FILL_CLASSES[status]}
            style={{ width: `${(loop[status] / loop.total) * 100}%` }}
          />
        ))}
      </div>
      <ul className="mt-1.5 flex flex-wrap gap-x-4 gap-y-1 text-xs tabular-nums">
        {statuses.map((status) => (
          <li key={status} className="inline-flex items-center gap-1">
            <StatusIcon status={status} size={13} />
            {formatCount(loop[status])} {status}
          </li>
        ))}
        {pending > 0 && <li className="text-muted">{formatCount(pending)} pending</li>}
        <li className="text-muted">of {formatCount(loop.total)}</li>
      </ul>
    </>
  );
}

interface IterationsProps {
  jobId: string;
  nodeId: string;
  isLive: boolean;
  attempt: number;
}

function Iterations({ jobId, nodeId, isLive, attempt }: IterationsProps) {
  const [status, setStatus] = useState("");
  const iterations = useInfiniteQuery({
    queryKey: ["job", jobId, "iterations", nodeId, status, isLive, attempt],
    queryFn: ({ pageParam: cursor, signal }) =>
      get<Page<Iteration>>(
        apiPath("jobs", jobId, "nodes", nodeId, "iterations"),
        { status, cursor, limit: PAGE_SIZE },
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => (isLive ? LIVE_INTERVAL_MS * Math.max(1, state.data?.pages.length ?? 1) : false),
  });
  return (
    <>
      <Select
        label="Iteration status"
        hideLabel
        value={status}
        options={[["", "Any status"], ...STATUSES.map((name) => [name, statusText(name)] as const)]}
        onChange={(event) => setStatus(event.target.value)}
      />
      <QueryResult query={iterations}>
        {({ pages }) => (
          <ul className="mt-2 divide-y divide-line/60 rounded-md border border-line">
            {pages
              .flatMap((page) => page.items)
              .map((iteration) => (
                <IterationRow key={iteration.index} iteration={iteration} />
              ))}
            {pages[0]?.items.length === 0 && <li className="p-3 text-muted">No matching iterations</li>}
          </ul>
        )}
      </QueryResult>
      {iterations.hasNextPage && (
        <LoadMore isBusy={iterations.isFetchingNextPage} onClick={() => void iterations.fetchNextPage()} />
      )}
    </>
  );
}

function IterationRow({ iteration }: { iteration: Iteration }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary className="flex items-center gap-2 px-2 py-1 text-xs">
          <StatusIcon status={iteration.status} size={13} />
          <span className="w-12 text-right font-mono tabular-nums">{formatCount(iteration.index)}</span>
          <span>{statusText(iteration.status)}</span>
          {iteration.attempt > 1 && <span className="text-muted">×{iteration.attempt}</span>}
          <span className="min-w-0 flex-1 truncate text-failed">
            {iteration.error?.message ?? (exhaustedPages(iteration.meta) !== null && "more pages left")}
          </span>
          <span className="text-muted">
            <Duration start={iteration.started_at ?? null} end={iteration.completed_at ?? null} />
          </span>
        </summary>
        {isOpen && (
          <div className="px-2 pb-2">
            {iteration.error ? (
              <NodeErrorBox error={iteration.error} />
            ) : (
              <ValueView label={`Output of iteration ${iteration.index}`} value={iteration.output} />
            )}
          </div>
        )}
      </details>
    </li>
  );
}
