// Whose counts are out of date: the loops that run, in turn, and those that ended since they were asked about.

import type { JobState } from "../model/state";

/** So many loops are asked about at a time; with one turn a second, so many requests a second. */
export const LOOPS_AT_ONCE = 3;

export interface DueLoop {
  number: number;
  /** What to remember as known once it was asked about. */
  known: string;
}

/** Loops that run come in turn: those asked about the longest ago are first in `counted`. */
export function dueLoops(state: JobState, counted: Map<number, string>): DueLoop[] {
  const fresh: DueLoop[] = [];
  const running: DueLoop[] = [];
  state.graph.nodes.forEach((node, number) => {
    const { status, attempt, endedAt, loop } = state.nodes[number] ?? {};
    if (!node.isLoop || !loop) {
      return;
    }
    const known = `${status} ${attempt} ${endedAt}`;
    if (counted.get(number) !== known) {
      fresh.push({ number, known });
    } else if (endedAt === null) {
      running.push({ number, known });
    }
  });
  const order = [...counted.keys()];
  running.sort((one, other) => order.indexOf(one.number) - order.indexOf(other.number));
  const due = [...fresh, ...running].slice(0, LOOPS_AT_ONCE);
  for (const { number } of due) {
    // Taken out and put back: a map keeps its keys in the order in which they came.
    counted.delete(number);
  }
  return due;
}
