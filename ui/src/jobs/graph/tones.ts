// The states of a job as its graph shows them: a tone for each unit and each edge, and counts of all.

import { type Tone, toneOf } from "../../components/status";
import { count, plural } from "../../lib/format";
import type { Drawn } from "../model/groups";
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
/** A unit of a definition, which has no state. */
export const PLAIN = 255;

const PENDING = TONES.indexOf("pending");
const READY = TONES.indexOf("ready");
const RUNNING = TONES.indexOf("running");
const WAITING = TONES.indexOf("waiting");
const COMPLETED = TONES.indexOf("completed");
const FAILED = TONES.indexOf("failed");
const SKIPPED = TONES.indexOf("skipped");
const CANCELLED = TONES.indexOf("cancelled");

export type EdgeLook = "idle" | "lit" | "flowing" | "failed" | "skipped";

const numbers = new Map<string, number>();

export function toneNumber(status: string): number {
  let number = numbers.get(status);
  if (number === undefined) {
    number = TONES.indexOf(toneOf(status));
    numbers.set(status, number);
  }
  return number;
}

/** By unit the number of its tone. */
export function tonesOf(drawn: Drawn, state: JobState | null): Uint8Array {
  const tones = new Uint8Array(drawn.units.length);
  if (state === null) {
    return tones.fill(PLAIN);
  }
  drawn.units.forEach((unit, number) => {
    const first = state.nodes[unit.members[0] as number];
    tones[number] =
      unit.kind === "node" ? toneNumber(first?.status ?? "pending") : groupTone(countsOf(state, unit.members));
  });
  return tones;
}

/** How many of these nodes, or of all, have each tone. */
export function countsOf(state: JobState, members?: readonly number[]): number[] {
  const counts = TONES.map(() => 0);
  const count = (status: string) => {
    const tone = toneNumber(status);
    counts[tone] = (counts[tone] ?? 0) + 1;
  };
  if (members === undefined) {
    for (const node of state.nodes) {
      count(node.status);
    }
  } else {
    for (const member of members) {
      count(state.nodes[member]?.status ?? "pending");
    }
  }
  return counts;
}

/** A group shows the worst of its members, or else the one that is under way. */
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

function lookBetween(from: number, to: number): EdgeLook {
  if (from === PLAIN) {
    return "idle";
  }
  if (from === SKIPPED || to === SKIPPED) {
    return "skipped";
  }
  if (from === FAILED) {
    // One that may fail lets those after it go on.
    return to === FAILED || to === CANCELLED || to === PENDING ? "failed" : "lit";
  }
  if (from !== COMPLETED) {
    return "idle";
  }
  return to === RUNNING ? "flowing" : "lit";
}

// Asked for tens of thousands of edges at a time.
const EDGE_LOOKS = [...TONES.keys(), PLAIN].map((from) => TONES.map((_, to) => lookBetween(from, to)));

export function edgeLook(from: number, to: number): EdgeLook {
  return EDGE_LOOKS[from]?.[to] ?? "idle";
}

/** "8 completed, 1 failed". */
export function toldCounts(counts: readonly number[]): string {
  const told = TONES.map((tone, number) => [counts[number] ?? 0, tone] as const);
  return told.flatMap(([many, tone]) => (many > 0 ? [`${count(many)} ${tone}`] : [])).join(", ");
}

/** "12 nodes: 8 completed, 1 failed". */
export function summaryOf(state: JobState): string {
  return `${plural(state.nodes.length, "node")}: ${toldCounts(countsOf(state))}`;
}
