import { expect, test } from "vitest";
import type { NodeStatus } from "../../api/types";
import { buildGraph } from "../model/graph";
import { initialState, type JobState } from "../model/state";
import { LOOPS_PER_POLL, loopsToPoll } from "./loop_polling";

const COUNTS = { total: 9, begun: 1, completed: 0, failed: 0, skipped: 0, running: 1, waiting: 0, cancelled: 0 };

function withLoops(count: number, status: NodeStatus = "dispatched"): JobState {
  const nodes = Array.from({ length: count }, (_, number) => ({ id: `n${number}`, handler: "echo", loop: {} }));
  const state = initialState(buildGraph({ workflow_id: "w", nodes }));
  state.nodes = state.nodes.map((node) => ({ ...node, status, loop: COUNTS }));
  return state;
}

function poll(state: JobState, polled: Map<number, string>): number[] {
  const loops = loopsToPoll(state, polled);
  for (const { number, version } of loops) {
    polled.set(number, version);
  }
  return loops.map(({ number }) => number);
}

test("running loops are polled in turn", () => {
  const state = withLoops(5);
  const polled = new Map<number, string>();
  const polls = [poll(state, polled), poll(state, polled), poll(state, polled)];
  expect(polls.every((loops) => loops.length <= LOOPS_PER_POLL)).toBe(true);
  expect(new Set(polls.flat()).size).toBe(5);
  expect(polls[2]).not.toEqual(polls[1]);
});

test("an ended loop is polled once more", () => {
  const state = withLoops(1);
  const polled = new Map<number, string>();
  poll(state, polled);
  const node = state.nodes[0];
  if (node) {
    state.nodes[0] = { ...node, status: "failed", endedAt: "2026-01-01T00:00:00Z" };
  }
  expect(poll(state, polled)).toEqual([0]);
  expect(poll(state, polled)).toEqual([]);
});

test("nodes without loop counts are not polled", () => {
  const state = withLoops(2);
  const node = state.nodes[0];
  if (node) {
    state.nodes[0] = { ...node, loop: null };
  }
  expect(poll(state, new Map())).toEqual([1]);
});
