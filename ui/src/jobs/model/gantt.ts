// Rows and bars of the timeline: for each attempt the time in the queue, the execution, and the wait for a retry.

import type { NodeStatus } from "../../api/types";
import type { Graph } from "./graph";
import type { Attempt, JobState, NodeState, Outcome } from "./state";
import { toMilliseconds } from "./timestamps";

export type BarKind = "queued" | "running" | "retry_wait";

/** Times are milliseconds since the epoch. */
export interface Bar {
  kind: BarKind;
  from: number;
  to: number;
  attempt: number;
  /** The outcome of the attempt; null while it is active, and for waits. */
  outcome: Outcome | null;
  /** Whether the bar still grows: `to` is now. */
  isOpen: boolean;
}

export interface GanttRow {
  node: number;
  id: string;
  status: NodeStatus;
  bars: Bar[];
  /** When a node ended that was never dispatched: skipped, upstream failed, START and END. */
  markAt: number | null;
}

export interface Gantt {
  /** Sorted by start time; nodes that have not started come last, in graph order. */
  rows: GanttRow[];
  from: number;
  to: number;
}

export function buildGantt(graph: Graph, state: JobState, currentTime: number): Gantt {
  const now = state.endedAt === null ? currentTime : toMilliseconds(state.endedAt);
  const rows = state.nodes.map((node, number) => buildRow(graph.nodes[number]?.id ?? "", number, node, now));
  let from = state.startedAt === null ? Number.POSITIVE_INFINITY : toMilliseconds(state.startedAt);
  let to = state.startedAt === null ? Number.NEGATIVE_INFINITY : now;
  for (const row of rows) {
    const start = startOf(row);
    if (start !== Number.POSITIVE_INFINITY) {
      from = Math.min(from, start);
      to = Math.max(to, row.bars.at(-1)?.to ?? start);
    }
  }
  if (from === Number.POSITIVE_INFINITY) {
    from = to = now;
  }
  const starts = rows.map(startOf);
  // The difference of two infinite starts is NaN, which falls through to the node number.
  const byStart = (one: GanttRow, other: GanttRow) =>
    (starts[one.node] as number) - (starts[other.node] as number) || one.node - other.node;
  rows.sort(byStart);
  return { rows, from, to };
}

function startOf(row: GanttRow): number {
  return row.bars[0]?.from ?? row.markAt ?? Number.POSITIVE_INFINITY;
}

function buildRow(id: string, number: number, node: NodeState, now: number): GanttRow {
  const bars: Bar[] = [];
  node.attempts.forEach((attempt, index) => {
    addBars(attempt, now, bars);
    const next = node.attempts[index + 1];
    const isWaiting = next ? attempt.outcome === "retrying" || attempt.outcome === "called" : node.status === "waiting";
    if (attempt.endedAt !== null && isWaiting) {
      const to = next?.dispatchedAt ? toMilliseconds(next.dispatchedAt) : now;
      const from = toMilliseconds(attempt.endedAt);
      if (to > from) {
        bars.push({ kind: "retry_wait", from, to, attempt: attempt.number, outcome: null, isOpen: !next });
      }
    }
  });
  const markAt = bars.length === 0 && node.endedAt !== null ? toMilliseconds(node.endedAt) : null;
  return { node: number, id, status: node.status, bars, markAt };
}

function addBars(attempt: Attempt, now: number, bars: Bar[]): void {
  const dispatched = attempt.dispatchedAt === null ? null : toMilliseconds(attempt.dispatchedAt);
  const started = attempt.startedAt === null ? null : toMilliseconds(attempt.startedAt);
  const ended = attempt.endedAt === null ? now : toMilliseconds(attempt.endedAt);
  const isOpen = attempt.endedAt === null;
  const { number, outcome } = attempt;
  if (dispatched !== null && (started === null || started > dispatched)) {
    const to = Math.max(dispatched, started ?? ended);
    const isQueued = started === null;
    bars.push({
      kind: "queued",
      from: dispatched,
      to,
      attempt: number,
      outcome: isQueued ? outcome : null,
      isOpen: isQueued && isOpen,
    });
  }
  if (started !== null) {
    bars.push({ kind: "running", from: started, to: Math.max(started, ended), attempt: number, outcome, isOpen });
  }
}
