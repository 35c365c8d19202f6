// The tones of units and styles of edges in a graph, by the state of a job.

import { type Tone, toneOf } from "../../components/status";
import { formatCount, pluralize } from "../../lib/format";
import type { UnitGraph } from "../model/groups";
import type { JobState } from "../model/state";

export const TONES: readonly Tone[] = [
  "pending",
  "ready",
  "running",
  "waiting",
  "completed",
  "failed",
  "skipped",
  "cancelled",
];
/** The tone of units without a state. */
export const NO_TONE = 255;

const PENDING = TONES.indexOf("pending");
const READY = TONES.indexOf("ready");
const RUNNING = TONES.indexOf("running");
const WAITING = TONES.indexOf("waiting");
const COMPLETED = TONES.indexOf("completed");
const FAILED = TONES.indexOf("failed");
const SKIPPED = TONES.indexOf("skipped");
const CANCELLED = TONES.indexOf("cancelled");

export type EdgeStyle = "idle" | "completed" | "active" | "failed" | "skipped";

const toneIndexes = new Map<string, number>();

/** The index of the tone of a status. */
export function toneIndex(status: string): number {
  let index = toneIndexes.get(status);
  if (index === undefined) {
    index = TONES.indexOf(toneOf(status));
    toneIndexes.set(status, index);
  }
  return index;
}

/** The tone index of each unit. */
export function tonesOf(unitGraph: UnitGraph, state: JobState | null): Uint8Array {
  const tones = new Uint8Array(unitGraph.units.length);
  if (state === null) {
    return tones.fill(NO_TONE);
  }
  unitGraph.units.forEach((unit, number) => {
    const first = state.nodes[unit.members[0] as number];
    tones[number] =
      unit.kind === "node" ? toneIndex(first?.status ?? "pending") : groupTone(countTones(state, unit.members));
  });
  return tones;
}

/** Count the tones of the given nodes, or of all nodes. */
export function countTones(state: JobState, members?: readonly number[]): number[] {
  const counts = TONES.map(() => 0);
  const add = (status: string) => {
    const tone = toneIndex(status);
    counts[tone] = (counts[tone] ?? 0) + 1;
  };
  if (members === undefined) {
    for (const node of state.nodes) {
      add(node.status);
    }
  } else {
    for (const member of members) {
      add(state.nodes[member]?.status ?? "pending");
    }
  }
  return counts;
}

/** The tone of a group: failed if a member failed, otherwise that of the most active member. */
export function groupTone(counts: readonly number[]): number {
  const has = (tone: number) => (counts[tone] ?? 0) > 0;
  for (const tone of [FAILED, RUNNING, WAITING, READY, CANCELLED]) {
    if (has(tone)) {
      return tone;
    }
  }
  if (has(PENDING)) {
    return has(COMPLETED) ? RUNNING : PENDING;
  }
  return has(COMPLETED) ? COMPLETED : SKIPPED;
}

function styleBetween(from: number, to: number): EdgeStyle {
  if (from === NO_TONE) {
    return "idle";
  }
  if (from === SKIPPED || to === SKIPPED) {
    return "skipped";
  }
  if (from === FAILED) {
    // With allow_failure, downstream nodes run after a failure.
    return to === FAILED || to === CANCELLED || to === PENDING ? "failed" : "completed";
  }
  if (from !== COMPLETED) {
    return "idle";
  }
  return to === RUNNING ? "active" : "completed";
}

// Precomputed: it is used for tens of thousands of edges at once.
const EDGE_STYLES = [...TONES.keys(), NO_TONE].map((from) => TONES.map((_, to) => styleBetween(from, to)));

export function edgeStyle(from: number, to: number): EdgeStyle {
  return EDGE_STYLES[from]?.[to] ?? "idle";
}

/** "8 completed, 1 failed". */
export function describeCounts(counts: readonly number[]): string {
  const parts = TONES.map((tone, index) => [counts[index] ?? 0, tone] as const);
  return parts.flatMap(([count, tone]) => (count > 0 ? [`${formatCount(count)} ${tone}`] : [])).join(", ");
}

/** "12 nodes: 8 completed, 1 failed". */
export function describeProgress(state: JobState): string {
  return `${pluralize(state.nodes.length, "node")}: ${describeCounts(countTones(state))}`;
}
