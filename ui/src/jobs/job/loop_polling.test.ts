import { expect, test } from "vitest";
import type { NodeStatus } from "../../api/types";
import { graphOf } from "../model/graph";
import { fresh, type JobState } from "../model/state";
import { dueLoops, LOOPS_AT_ONCE } from "./loop_polling";

const COUNTS = { total: 9, begun: 1, completed: 0, failed: 0, skipped: 0, running: 1, waiting: 0, cancelled: 0 };

function withLoops(count: number, status: NodeStatus = "dispatched"): JobState {
  const nodes = Array.from({ length: count }, (_, number) => ({ id: `n${number}`, handler: "echo", loop: {} }));
  const state = fresh(graphOf({ workflow_id: "w", nodes }));
  state.nodes = state.nodes.map((node) => ({ ...node, status, loop: COUNTS }));
  return state;
}

function asked(state: JobState, counted: Map<number, string>): number[] {
  const due = dueLoops(state, counted);
  for (const { number, known } of due) {
    counted.set(number, known);
  }
  return due.map(({ number }) => number);
}

test("loops that run are asked about in turn, a few at a time", () => {
  const state = withLoops(5);
  const counted = new Map<number, string>();
  const turns = [asked(state, counted), asked(state, counted), asked(state, counted)];
  expect(turns.every((turn) => turn.length <= LOOPS_AT_ONCE)).toBe(true);
  expect(new Set(turns.flat()).size).toBe(5);
  expect(turns[2]).not.toEqual(turns[1]);
});

test("a loop that has ended is asked about once more and then no longer", () => {
  const state = withLoops(1);
  const counted = new Map<number, string>();
  asked(state, counted);
  const node = state.nodes[0];
  if (node) {
    state.nodes[0] = { ...node, status: "failed", endedAt: "2026-01-01T00:00:00Z" };
  }
  expect(asked(state, counted)).toEqual([0]);
  expect(asked(state, counted)).toEqual([]);
});

test("nodes without a loop, and loops that have not begun, are not asked about", () => {
  const state = withLoops(2);
  const node = state.nodes[0];
  if (node) {
    state.nodes[0] = { ...node, loop: null };
  }
  expect(asked(state, new Map())).toEqual([1]);
});
