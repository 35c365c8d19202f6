import { describe, expect, it } from "vitest";
import { graphOf } from "./graph";
import { definition, fan, mesh, quickest } from "./graph.fixture";
import { drawnOf, groupsOf } from "./groups";

describe("a graph of a definition", () => {
  it("numbers nodes so that every one comes after those that it waits for", () => {
    const graph = graphOf(definition({ join: ["right", "left"], left: ["top"], right: ["top"], top: [] }));

    expect(graph.nodes.map((node) => node.id)).toEqual(["top", "left", "right", "join"]);
    expect(graph.nodes.map((node) => node.rank)).toEqual([0, 1, 1, 2]);
    expect(graph.nodes[3]?.parents).toEqual([1, 2]);
    expect(graph.nodes[0]?.children).toEqual([1, 2]);
  });

  it("tells START, END, loops and conditions", () => {
    const graph = graphOf({
      workflow_id: "kinds",
      nodes: [
        { id: "begin", kind: "start", handler: "" },
        {
          id: "each",
          handler: "echo",
          dependencies: ["begin"],
          loop: { collection: "{{ range(2) }}" },
          when: "{{ x }}",
        },
        { id: "stop", kind: "end", handler: "", dependencies: ["each"] },
      ],
    });

    expect(graph.nodes.map(({ kind, handler }) => [kind, handler])).toEqual([
      ["start", "start"],
      ["task", "echo"],
      ["end", "end"],
    ]);
    expect([graph.nodes[1]?.isLoop, graph.nodes[1]?.hasWhen, graph.nodes[0]?.isLoop]).toEqual([true, true, false]);
  });

  it("tells parents and children in the order of their numbers, however they are written", () => {
    const graph = graphOf(definition({ last: ["c", "a", "b", "a"], c: ["b"], b: [], a: [] }));

    expect(graph.nodes.map(({ id }) => id)).toEqual(["b", "a", "c", "last"]);
    expect(graph.nodes.map(({ parents }) => parents)).toEqual([[], [], [0], [0, 1, 2]]);
    expect(graph.nodes.map(({ children }) => children)).toEqual([[2, 3], [3], [3], []]);
  });

  it("leaves out dependencies that do not exist and what would close a cycle", () => {
    const graph = graphOf(definition({ one: ["nobody"], two: ["three"], three: ["two"] }));

    expect(graph.nodes.map((node) => node.parents)).toEqual([[], [], [1]]);
  });

  it("takes 100,000 nodes in one line without running out of stack", () => {
    const edges: Record<string, string[]> = { n0: [] };
    for (let place = 1; place < 100_000; place++) {
      edges[`n${place}`] = [`n${place - 1}`];
    }

    expect(graphOf(definition(edges)).nodes.at(-1)?.rank).toBe(99_999);
  });

  it("is made of 10,000 nodes in less than 100 ms", () => {
    const written = mesh(100, 100);

    expect(quickest(() => graphOf(written))).toBeLessThan(100);
    expect(graphOf(written).nodes.length).toBe(10_000);
  });
});

describe("groups", () => {
  it("make one unit of many alike nodes in a large graph", () => {
    const graph = graphOf(fan(1_000));
    const { units, unitOf } = drawnOf(graph, groupsOf(graph), new Set());

    expect(units.map(({ kind, members }) => [kind, members.length])).toEqual([
      ["node", 1],
      ["group", 1_000],
      ["node", 1],
    ]);
    expect(units.map(({ parents, children }) => [parents, children])).toEqual([
      [[], [1]],
      [[0], [2]],
      [[1], []],
    ]);
    expect(unitOf[graph.index.get("item_77") ?? 0]).toBe(1);
  });

  it("show their members when they are opened, and keep the edges to themselves", () => {
    const graph = graphOf(fan(100));
    const groups = groupsOf(graph);
    const id = groups[0]?.id ?? "";
    const { units, outer, unitOf } = drawnOf(graph, groups, new Set([id]));

    expect([units.length, outer, units[1]?.inside]).toEqual([103, 3, 3]);
    expect(units.filter((unit) => unit.within === 1).length).toBe(100);
    expect(units[2]?.parents).toEqual([1]);
    expect([units[50]?.parents, units[50]?.children]).toEqual([[0], [2]]);
    expect(units[unitOf[graph.index.get("item_77") ?? 0] ?? 0]?.id).toBe("item_77");
  });

  it("are not made in a small graph, of few nodes, or of nodes with another handler, parent or child", () => {
    expect(groupsOf(graphOf(fan(50)))).toEqual([]);
    expect(groupsOf(graphOf(mesh(10, 10)))).toEqual([]);
    const mixed = fan(70);
    mixed.nodes.forEach((node, place) => {
      node.handler = `kind_${place % 7}`;
    });
    expect(groupsOf(graphOf(mixed))).toEqual([]);
  });

  it("join the nodes around them to both sides when two groups follow each other", () => {
    const left = Array.from({ length: 40 }, (_, place) => `left_${place}`);
    const right = Array.from({ length: 40 }, (_, place) => `right_${place}`);
    const edges = Object.fromEntries([...left.map((id) => [id, []]), ...right.map((id) => [id, left])]);
    const graph = graphOf(definition(edges));
    const { units } = drawnOf(graph, groupsOf(graph), new Set());

    expect(units.map(({ kind, parents, children }) => [kind, parents, children])).toEqual([
      ["group", [], [1]],
      ["group", [0], []],
    ]);
  });
});
