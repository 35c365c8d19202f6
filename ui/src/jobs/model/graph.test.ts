import { describe, expect, it } from "vitest";
import { buildGraph } from "./graph";
import { definition, fan, fastestMs, mesh } from "./graph.fixture";
import { buildUnitGraph, findGroups } from "./groups";

describe("buildGraph", () => {
  it("numbers nodes after their dependencies", () => {
    const graph = buildGraph(definition({ join: ["right", "left"], left: ["top"], right: ["top"], top: [] }));

    expect(graph.nodes.map((node) => node.id)).toEqual(["top", "left", "right", "join"]);
    expect(graph.nodes.map((node) => node.rank)).toEqual([0, 1, 1, 2]);
    expect(graph.nodes[3]?.parents).toEqual([1, 2]);
    expect(graph.nodes[0]?.children).toEqual([1, 2]);
  });

  it("recognizes START, END, loops and conditions", () => {
    const graph = buildGraph({
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

  it("sorts parents and children by number", () => {
    const graph = buildGraph(definition({ last: ["c", "a", "b", "a"], c: ["b"], b: [], a: [] }));

    expect(graph.nodes.map(({ id }) => id)).toEqual(["b", "a", "c", "last"]);
    expect(graph.nodes.map(({ parents }) => parents)).toEqual([[], [], [0], [0, 1, 2]]);
    expect(graph.nodes.map(({ children }) => children)).toEqual([[2, 3], [3], [3], []]);
  });

  it("omits unknown dependencies and edges that close a cycle", () => {
    const graph = buildGraph(definition({ one: ["unknown"], two: ["three"], three: ["two"] }));

    expect(graph.nodes.map((node) => node.parents)).toEqual([[], [], [1]]);
  });

  it("handles a chain of 100,000 nodes", () => {
    const edges: Record<string, string[]> = { n0: [] };
    for (let index = 1; index < 100_000; index++) {
      edges[`n${index}`] = [`n${index - 1}`];
    }

    expect(buildGraph(definition(edges)).nodes.at(-1)?.rank).toBe(99_999);
  });

  it("builds 10,000 nodes in less than 100 ms", () => {
    const large = mesh(100, 100);

    expect(fastestMs(() => buildGraph(large))).toBeLessThan(100);
    expect(buildGraph(large).nodes.length).toBe(10_000);
  });
});

describe("groups", () => {
  it("combine many equivalent nodes of a large graph", () => {
    const graph = buildGraph(fan(1_000));
    const { units, unitOfNode } = buildUnitGraph(graph, findGroups(graph), new Set());

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
    expect(unitOfNode[graph.index.get("item_77") ?? 0]).toBe(1);
  });

  it("show their members when expanded, and keep their edges", () => {
    const graph = buildGraph(fan(100));
    const groups = findGroups(graph);
    const id = groups[0]?.id ?? "";
    const { units, topLevelCount, unitOfNode } = buildUnitGraph(graph, groups, new Set([id]));

    expect([units.length, topLevelCount, units[1]?.firstMember]).toEqual([103, 3, 3]);
    expect(units.filter((unit) => unit.group === 1).length).toBe(100);
    expect(units[2]?.parents).toEqual([1]);
    expect([units[50]?.parents, units[50]?.children]).toEqual([[0], [2]]);
    expect(units[unitOfNode[graph.index.get("item_77") ?? 0] ?? 0]?.id).toBe("item_77");
  });

  it("need a large graph and many nodes with the same handler, parents and children", () => {
    expect(findGroups(buildGraph(fan(50)))).toEqual([]);
    expect(findGroups(buildGraph(mesh(10, 10)))).toEqual([]);
    const mixed = fan(70);
    mixed.nodes.forEach((node, index) => {
      node.handler = `kind_${index % 7}`;
    });
    expect(findGroups(buildGraph(mixed))).toEqual([]);
  });

  it("have one edge between two groups", () => {
    const left = Array.from({ length: 40 }, (_, index) => `left_${index}`);
    const right = Array.from({ length: 40 }, (_, index) => `right_${index}`);
    const edges = Object.fromEntries([...left.map((id) => [id, []]), ...right.map((id) => [id, left])]);
    const graph = buildGraph(definition(edges));
    const { units } = buildUnitGraph(graph, findGroups(graph), new Set());

    expect(units.map(({ kind, parents, children }) => [kind, parents, children])).toEqual([
      ["group", [], [1]],
      ["group", [0], []],
    ]);
  });
});
