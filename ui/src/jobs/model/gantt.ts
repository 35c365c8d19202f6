// The rows and bars of a job's timeline: for each attempt its wait for a worker, its run, and the wait for the next.

import type { NodeStatus } from "../../api/types";
import type { Graph } from "./graph";
import type { Attempt, JobState, NodeState, Outcome } from "./state";
import { milliseconds } from "./timestamps";

export type BarKind = "queued" | "running" | "retry_wait";

/** Milliseconds since the epoch. */
export interface Bar {
  kind: BarKind;
  from: number;
  to: number;
  attempt: number;
  /** How the attempt ended; null while it goes on, and for waits. */
  outcome: Outcome | null;
  /** It goes on: `to` is now. */
  isOpen: boolean;
}

export interface GanttRow {
  node: number;
  id: string;
  status: NodeStatus;
  bars: Bar[];
  /** When a node ended that was never dispatched: skipped, failed with one before it, START and END. */
  markAt: number | null;
}

export interface Gantt {
  /** Those that began first come first; those that have not begun come last, in the order of the graph. */
  rows: GanttRow[];
  from: number;
  to: number;
}

export function ganttOf(graph: Graph, state: JobState, now: number): Gantt {
  const present = state.endedAt === null ? now : milliseconds(state.endedAt);
  const rows = state.nodes.map((node, number) => rowOf(graph.nodes[number]?.id ?? "", number, node, present));
  let from = state.startedAt === null ? Number.POSITIVE_INFINITY : milliseconds(state.startedAt);
  let to = state.startedAt === null ? Number.NEGATIVE_INFINITY : present;
  for (const row of rows) {
    const begun = beginOf(row);
    if (begun !== Number.POSITIVE_INFINITY) {
      from = Math.min(from, begun);
      to = Math.max(to, row.bars.at(-1)?.to ?? begun);
    }
  }
  if (from === Number.POSITIVE_INFINITY) {
    from = to = present;
  }
  const begins = rows.map(beginOf);
  // Two that never began are both infinitely late, and their difference is no number.
  const byBegin = (one: GanttRow, other: GanttRow) =>
    (begins[one.node] as number) - (begins[other.node] as number) || one.node - other.node;
  rows.sort(byBegin);
  return { rows, from, to };
}

function beginOf(row: GanttRow): number {
  return row.bars[0]?.from ?? row.markAt ?? Number.POSITIVE_INFINITY;
}

function rowOf(id: string, number: number, node: NodeState, present: number): GanttRow {
  const bars: Bar[] = [];
  node.attempts.forEach((attempt, place) => {
    barsOf(attempt, present, bars);
    const next = node.attempts[place + 1];
    const waits = next ? attempt.outcome === "retrying" : node.status === "waiting";
    if (attempt.endedAt !== null && waits) {
      const to = next?.dispatchedAt ? milliseconds(next.dispatchedAt) : present;
      const from = milliseconds(attempt.endedAt);
      if (to > from) {
        bars.push({ kind: "retry_wait", from, to, attempt: attempt.number, outcome: null, isOpen: !next });
      }
    }
  });
  const markAt = bars.length === 0 && node.endedAt !== null ? milliseconds(node.endedAt) : null;
  return { node: number, id, status: node.status, bars, markAt };
}

function barsOf(attempt: Attempt, present: number, bars: Bar[]): void {
  const dispatched = attempt.dispatchedAt === null ? null : milliseconds(attempt.dispatchedAt);
  const started = attempt.startedAt === null ? null : milliseconds(attempt.startedAt);
  const ended = attempt.endedAt === null ? present : milliseconds(attempt.endedAt);
  const isOpen = attempt.endedAt === null;
  const { number, outcome } = attempt;
  if (dispatched !== null && (started === null || started > dispatched)) {
    const to = Math.max(dispatched, started ?? ended);
    const waitsOn = started === null;
    bars.push({
      kind: "queued",
      from: dispatched,
      to,
      attempt: number,
      outcome: waitsOn ? outcome : null,
      isOpen: waitsOn && isOpen,
    });
  }
  if (started !== null) {
    bars.push({ kind: "running", from: started, to: Math.max(started, ended), attempt: number, outcome, isOpen });
  }
}
