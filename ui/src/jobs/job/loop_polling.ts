// Chooses the loops whose counts to poll: changed loops, then running ones in turn.

import type { JobState } from "../model/state";

/** One poll per second sends at most this many requests. */
export const LOOPS_PER_POLL = 3;

export interface LoopToPoll {
  number: number;
  /** Changes with the status of the loop. */
  version: string;
}

/** `polled` has the version of each polled loop, least recently polled first. */
export function loopsToPoll(state: JobState, polled: Map<number, string>): LoopToPoll[] {
  const changed: LoopToPoll[] = [];
  const running: LoopToPoll[] = [];
  state.graph.nodes.forEach((node, number) => {
    const { status, attempt, endedAt, loop } = state.nodes[number] ?? {};
    if (!node.isLoop || !loop) {
      return;
    }
    const version = `${status} ${attempt} ${endedAt}`;
    if (polled.get(number) !== version) {
      changed.push({ number, version });
    } else if (endedAt === null) {
      running.push({ number, version });
    }
  });
  const order = [...polled.keys()];
  running.sort((one, other) => order.indexOf(one.number) - order.indexOf(other.number));
  const loops = [...changed, ...running].slice(0, LOOPS_PER_POLL);
  for (const { number } of loops) {
    // The caller adds it again, which moves it to the end of the map.
    polled.delete(number);
  }
  return loops;
}
