import { describe, expect, it } from "vitest";
import type { Json, Node } from "../../api/types";
import { firstDifference, same } from "./compare";
import { type Graph, graphOf } from "./graph";
import { definition } from "./graph.fixture";
import { fresh, type JobState, type NodeState } from "./state";

const line = graphOf(definition({ one: [], two: ["one"], three: ["two"] }));

function completed(graph: Graph, changes: Record<string, Partial<NodeState>> = {}): JobState {
  const state = fresh(graph);
  state.nodes = state.nodes.map((node, number) => ({
    ...node,
    status: "completed",
    attempt: 1,
    startedAt: "2026-01-01T00:00:00.000000Z",
    endedAt: "2026-01-01T00:00:01.000000Z",
    ...changes[graph.nodes[number]?.id ?? ""],
  }));
  return state;
}

function outputs(values: Record<string, Json>): Node[] {
  return Object.entries(values).map(([node_id, output]) => ({ node_id, output }) as Node);
}

describe("two jobs of one workflow", () => {
  it("have no difference when everything is the same", () => {
    const values = outputs({ one: { a: 1, b: [2] }, two: 2, three: 3 });
    const others = outputs({ one: { b: [2], a: 1 }, two: 2, three: 3 });

    expect(firstDifference(completed(line), values, completed(line), others)).toEqual({
      first: null,
      all: [],
    });
  });

  it("part at the first node in the order of the graph, whatever differs there", () => {
    const failed = completed(line, {
      two: { status: "failed", error: { message: "no" } },
      three: { status: "failed", error: { message: "upstream" } },
    });
    const left = outputs({ one: 1, two: 2, three: 3 });
    const statuses = firstDifference(completed(line), left, failed, outputs({ one: 1 }));
    const values = firstDifference(completed(line), left, failed, outputs({ one: "other" }));

    expect(statuses.first).toEqual({ nodeId: "two", kind: "status" });
    expect(values.first).toEqual({ nodeId: "one", kind: "output" });
    expect(values.all.map(({ nodeId, kind }) => `${nodeId} ${kind}`)).toEqual([
      "one output",
      "two status",
      "three status",
    ]);
  });

  it("differ in attempts, and in errors when both failed", () => {
    const left = completed(line, { one: { attempt: 3 }, two: { status: "failed", error: { message: "no" } } });
    const right = completed(line, { two: { status: "failed", error: { message: "never" } } });
    const { all } = firstDifference(left, [], right, []);

    expect(all.map(({ nodeId, kind }) => `${nodeId} ${kind}`)).toEqual(["one attempts", "two error"]);
  });

  it("tell of a node that took far longer, but never as the first difference", () => {
    const slow = completed(line, { one: { endedAt: "2026-01-01T00:00:09.000000Z" } });
    const little = completed(line, { one: { endedAt: "2026-01-01T00:00:01.900000Z" } });
    const { first, all } = firstDifference(completed(line), [], slow, []);

    expect([first, all]).toEqual([null, [{ nodeId: "one", kind: "duration" }]]);
    expect(firstDifference(completed(line), [], little, []).all).toEqual([]);
  });

  it("of other versions show what only one of them has, where it runs", () => {
    const other = graphOf(definition({ one: [], added: ["one"], three: ["added"] }));
    const { first, all } = firstDifference(completed(line), [], completed(other), []);

    expect(first).toEqual({ nodeId: "added", kind: "only_right" });
    expect(all.map(({ nodeId, kind }) => `${nodeId} ${kind}`)).toEqual(["added only_right", "two only_left"]);
  });
});

describe("JSON values", () => {
  it("are the same whatever the order of their keys, and not otherwise", () => {
    expect(same({ a: [1, { b: null }], c: 2 }, { c: 2, a: [1, { b: null }] })).toBe(true);
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
      expect(same(one, other)).toBe(false);
    }
  });
});
