import { describe, expect, it } from "vitest";
import type { Json } from "../../api/types";
import { type ComparedJob, compareJobs, isSameJson } from "./compare";
import { buildGraph, type Graph } from "./graph";
import { definition } from "./graph.fixture";
import { initialState, type NodeState } from "./state";

const chain = buildGraph(definition({ one: [], two: ["one"], three: ["two"] }));

function completed(
  graph: Graph,
  outputs: Record<string, Json> = {},
  changes: Record<string, Partial<NodeState>> = {},
): ComparedJob {
  const state = initialState(graph);
  state.nodes = state.nodes.map((node, number) => ({
    ...node,
    status: "completed",
    attempt: 1,
    startedAt: "2026-01-01T00:00:00.000000Z",
    endedAt: "2026-01-01T00:00:01.000000Z",
    ...changes[graph.nodes[number]?.id ?? ""],
  }));
  return { jobId: "j", state, outputs: new Map(Object.entries(outputs)) };
}

function describeAll(left: ComparedJob, right: ComparedJob): string[] {
  return compareJobs(left, right).all.map(({ nodeId, kind }) => `${nodeId} ${kind}`);
}

describe("compareJobs", () => {
  it("finds no difference between equal jobs", () => {
    const left = completed(chain, { one: { a: 1, b: [2] }, two: 2, three: 3 });
    const right = completed(chain, { one: { b: [2], a: 1 }, two: 2, three: 3 });

    expect(compareJobs(left, right)).toEqual({ first: null, all: [] });
  });

  it("returns the first difference in execution order", () => {
    const failures: Record<string, Partial<NodeState>> = {
      two: { status: "failed", error: { message: "no" } },
      three: { status: "failed", error: { message: "upstream" } },
    };
    const left = completed(chain, { one: 1, two: 2, three: 3 });
    const sameOutput = completed(chain, { one: 1 }, failures);
    const otherOutput = completed(chain, { one: "other" }, failures);

    expect(compareJobs(left, sameOutput).first).toEqual({ nodeId: "two", kind: "status" });
    expect(compareJobs(left, otherOutput).first).toEqual({ nodeId: "one", kind: "output" });
    expect(describeAll(left, otherOutput)).toEqual(["one output", "two status", "three status"]);
  });

  it("compares attempts, and errors of nodes that failed in both jobs", () => {
    const left = completed(chain, {}, { one: { attempt: 3 }, two: { status: "failed", error: { message: "no" } } });
    const right = completed(chain, {}, { two: { status: "failed", error: { message: "never" } } });

    expect(describeAll(left, right)).toEqual(["one attempts", "two error"]);
  });

  it("lists a much longer duration, but never as the first difference", () => {
    const slow = completed(chain, {}, { one: { endedAt: "2026-01-01T00:00:09.000000Z" } });
    const slightlySlow = completed(chain, {}, { one: { endedAt: "2026-01-01T00:00:01.900000Z" } });
    const { first, all } = compareJobs(completed(chain), slow);

    expect([first, all]).toEqual([null, [{ nodeId: "one", kind: "duration" }]]);
    expect(compareJobs(completed(chain), slightlySlow).all).toEqual([]);
  });

  it("lists nodes that only one version has in execution order", () => {
    const other = buildGraph(definition({ one: [], added: ["one"], three: ["added"] }));
    const { first } = compareJobs(completed(chain), completed(other));

    expect(first).toEqual({ nodeId: "added", kind: "only_right" });
    expect(describeAll(completed(chain), completed(other))).toEqual(["added only_right", "two only_left"]);
  });
});

describe("isSameJson", () => {
  it("ignores the order of keys and nothing else", () => {
    expect(isSameJson({ a: [1, { b: null }], c: 2 }, { c: 2, a: [1, { b: null }] })).toBe(true);
    const different: [Json, Json][] = [
      [
        [1, 2],
        [2, 1],
      ],
      [{ a: 1 }, { a: 1, b: 1 }],
      [{ a: null }, { b: null }],
      [[], {}],
      [null, 0],
      ["1", 1],
    ];
    for (const [one, other] of different) {
      expect(isSameJson(one, other)).toBe(false);
    }
  });
});
