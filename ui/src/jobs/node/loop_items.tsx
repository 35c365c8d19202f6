// How far a loop came, and its items, page by page.

import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { at, get } from "../../api/client";
import { LIVE_MS } from "../../api/queries";
import type { Page, Task } from "../../api/shapes";
import { Choice, More } from "../../parts/controls";
import { count, plural } from "../../parts/format";
import { Loaded } from "../../parts/problem";
import { FILLS, StatusIcon } from "../../parts/status";
import { Took } from "../../parts/time";
import type { LoopCounts, NodeState } from "../model/state";
import { ErrorBox } from "./error_box";
import { Value } from "./node_values";
import { Folded, Section } from "./section";

const PAGE_SIZE = 50;
const STATES = ["completed", "failed", "running", "waiting", "skipped", "cancelled"] as const;
const CHOICES = ["pending", "dispatched", "running", "waiting", "completed", "failed", "skipped", "cancelled"];

interface LoopProps {
  jobId: string;
  nodeId: string;
  shown: NodeState;
  isPast: boolean;
  /** Whether the counts are those of the moment that is shown. */
  isCounted: boolean;
}

export function LoopSection({ jobId, nodeId, shown, isPast, isCounted }: LoopProps) {
  if (shown.loop === null) {
    return null;
  }
  return (
    <Section title="Loop">
      {isCounted ? (
        <Counts loop={shown.loop} />
      ) : (
        <p className="text-muted">
          {plural(shown.loop.total, "item")}. How far they were is known once the events of items are read.
        </p>
      )}
      {!isPast && (
        <div className="mt-2">
          <Folded title="Items">
            <Items key={nodeId} jobId={jobId} nodeId={nodeId} isLive={shown.endedAt === null} attempt={shown.attempt} />
          </Folded>
        </div>
      )}
    </Section>
  );
}

function Counts({ loop }: { loop: LoopCounts }) {
  const left = loop.total - STATES.reduce((sum, state) => sum + loop[state], 0);
  return (
    <>
      <div className="flex h-2.5 overflow-hidden rounded-full bg-sunken" aria-hidden="true">
        {STATES.filter((state) => loop[state] > 0).map((state) => (
          <div key={state} className={FILLS[state]} style={{ width: `${(loop[state] / loop.total) * 100}%` }} />
        ))}
      </div>
      <ul className="mt-1.5 flex flex-wrap gap-x-4 gap-y-1 text-xs tabular-nums">
        {STATES.filter((state) => loop[state] > 0).map((state) => (
          <li key={state} className="inline-flex items-center gap-1">
            <StatusIcon status={state} size={13} />
            {count(loop[state])} {state}
          </li>
        ))}
        {left > 0 && <li className="text-muted">{count(left)} not begun</li>}
        <li className="text-muted">of {count(loop.total)}</li>
      </ul>
    </>
  );
}

interface ItemsProps {
  jobId: string;
  nodeId: string;
  isLive: boolean;
  attempt: number;
}

function Items({ jobId, nodeId, isLive, attempt }: ItemsProps) {
  const [status, setStatus] = useState("");
  const tasks = useInfiniteQuery({
    queryKey: ["job", jobId, "tasks", nodeId, status, isLive, attempt],
    queryFn: ({ pageParam: cursor, signal }) =>
      get<Page<Task>>(at("jobs", jobId, "nodes", nodeId, "iterations"), { status, cursor, limit: PAGE_SIZE }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => (isLive ? LIVE_MS * Math.max(1, state.data?.pages.length ?? 1) : false),
  });
  return (
    <>
      <Choice
        label="Items by state"
        hidden
        value={status}
        options={[["", "Any state"], ...CHOICES.map((name) => [name, name] as const)]}
        onChange={(event) => setStatus(event.target.value)}
      />
      <Loaded query={tasks}>
        {({ pages }) => (
          <ul className="mt-2 divide-y divide-line/60 rounded-md border border-line">
            {pages
              .flatMap((page) => page.items)
              .map((task) => (
                <Item key={task.index} task={task} />
              ))}
            {pages[0]?.items.length === 0 && <li className="p-3 text-muted">No item is in this state.</li>}
          </ul>
        )}
      </Loaded>
      {tasks.hasNextPage && <More busy={tasks.isFetchingNextPage} onClick={() => void tasks.fetchNextPage()} />}
    </>
  );
}

function Item({ task }: { task: Task }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary className="flex items-center gap-2 px-2 py-1 text-xs">
          <StatusIcon status={task.status} size={13} />
          <span className="w-12 text-right font-mono tabular-nums">{count(task.index)}</span>
          <span>{task.status}</span>
          {task.attempt > 1 && <span className="text-muted">×{task.attempt}</span>}
          <span className="min-w-0 flex-1 truncate text-failed">{task.error?.message}</span>
          <span className="text-muted">
            <Took start={task.started_at ?? null} end={task.completed_at ?? null} />
          </span>
        </summary>
        {isOpen && (
          <div className="px-2 pb-2">
            {task.error ? (
              <ErrorBox error={task.error} />
            ) : (
              <Value label={`Output of item ${task.index}`} value={task.output} />
            )}
          </div>
        )}
      </details>
    </li>
  );
}
