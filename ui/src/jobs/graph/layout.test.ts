import { describe, expect, it } from "vitest";
import type { Definition } from "../../api/types";
import { buildGraph } from "../model/graph";
import { definition, fan, fastestMs, mesh } from "../model/graph.fixture";
import { buildUnitGraph, findGroups } from "../model/groups";
import { computeLayout } from "./layout";
import { cacheKey, type Direction, type Layout, type LayoutRequest } from "./layout_types";
import { removeOverlaps } from "./remove_overlaps";
import { layoutRequest, layoutWithMembers } from "./unit_sizes";

function requestFor(workflow: Definition, direction: Direction = "right"): LayoutRequest {
  const graph = buildGraph(workflow);
  return layoutRequest(graph, buildUnitGraph(graph, [], new Set()), direction);
}

/** Return two units that overlap, or null. Compares units sorted by their left side. */
function findOverlap({ x, y, widths, heights }: Layout): [number, number] | null {
  const order = Array.from(x.keys()).sort((one, other) => (x[one] as number) - (x[other] as number));
  let candidates: number[] = [];
  for (const unit of order) {
    const left = x[unit] as number;
    candidates = candidates.filter((other) => (x[other] as number) + (widths[other] as number) > left);
    const top = y[unit] as number;
    const hit = candidates.find(
      (other) =>
        top < (y[other] as number) + (heights[other] as number) &&
        (y[other] as number) < top + (heights[unit] as number),
    );
    if (hit !== undefined) {
      return [hit, unit];
    }
    candidates.push(unit);
  }
  return null;
}

/** Count the edges that lead backward. */
function countBackwardEdges(layout: Layout): number {
  const along = layout.direction === "right" ? layout.x : layout.y;
  const size = layout.direction === "right" ? layout.widths : layout.heights;
  let count = 0;
  for (let index = 0; index < layout.edges.length; index += 2) {
    const [from, to] = [layout.edges[index] as number, layout.edges[index + 1] as number];
    count += (along[from] as number) + (size[from] as number) > (along[to] as number) ? 1 : 0;
  }
  return count;
}

const ladder = definition({ a: [], b: ["a"], c: ["b"], d: ["c"], e: ["d", "a"], f: ["a"] });

describe.each(["right", "down"] as const)("a layout with direction %s", (direction) => {
  it.each([
    ["a few nodes", ladder],
    ["a fan of 40", fan(40)],
    ["a fan of 1,000", fan(1_000)],
    ["a mesh of 2,000", mesh(40, 50)],
    [
      "nodes without edges",
      definition(Object.fromEntries(Array.from({ length: 400 }, (_, index) => [`n${index}`, []]))),
    ],
  ])("has no overlaps and no backward edges: %s", (_, workflow) => {
    const layout = computeLayout(requestFor(workflow, direction));

    expect(findOverlap(layout)).toBeNull();
    expect(countBackwardEdges(layout)).toBe(0);
    expect(Math.min(...layout.x, ...layout.y)).toBeGreaterThanOrEqual(-0.01);
    expect(layout.width).toBeGreaterThan(0);
  });
});

describe("layouts", () => {
  it("route edges around other nodes", () => {
    const layout = computeLayout(requestFor(ladder));
    const graph = buildGraph(ladder);
    const [from, to] = [graph.index.get("a"), graph.index.get("e")];
    const edges = Array.from({ length: layout.edges.length / 2 }, (_, edge) => edge);
    const long = edges.find((edge) => layout.edges[2 * edge] === from && layout.edges[2 * edge + 1] === to) ?? -1;
    const bends = layout.bends.slice(layout.bendStarts[long], layout.bendStarts[long + 1]);

    expect(bends.length).toBe(6);
    for (let index = 0; index < bends.length; index += 2) {
      const [x, y] = [bends[index] as number, bends[index + 1] as number];
      graph.nodes.forEach((_, unit) => {
        const [left, top] = [layout.x[unit] as number, layout.y[unit] as number];
        const isInside =
          x > left &&
          x < left + (layout.widths[unit] as number) &&
          y > top &&
          y < top + (layout.heights[unit] as number);
        expect(isInside).toBe(false);
      });
    }
  });

  it("keep the document order of units where edges allow it", () => {
    const { y } = computeLayout(requestFor(fan(6)));
    const middle = [...y.slice(1, 7)];

    expect(middle).toEqual(middle.toSorted((one, other) => one - other));
  });

  it("of a wide fan use several columns", () => {
    const { width, height } = computeLayout(requestFor(fan(1_000)));

    expect(width / height).toBeGreaterThan(1);
    expect(width / height).toBeLessThan(4);
  });

  it("place the members of an expanded group within its frame", () => {
    const graph = buildGraph(fan(100));
    const groups = findGroups(graph);
    const unitGraph = buildUnitGraph(graph, groups, new Set(groups.map((group) => group.id)));
    const layout = layoutWithMembers(graph, unitGraph, computeLayout(layoutRequest(graph, unitGraph, "right")));
    const part = (values: Float32Array) => values.slice(unitGraph.topLevelCount);
    const { x, y, widths, heights } = layout;
    const members = { ...layout, x: part(x), y: part(y), widths: part(widths), heights: part(heights) };
    const frame = unitGraph.units.findIndex((unit) => unit.firstMember >= 0);

    expect(members.x.length).toBe(100);
    expect(findOverlap(members)).toBeNull();
    expect(Math.min(...members.x)).toBeGreaterThan(x[frame] as number);
    expect(Math.min(...members.y)).toBeGreaterThan(y[frame] as number);
    const right = Math.max(...members.x.map((left, unit) => left + (members.widths[unit] as number)));
    expect(right).toBeLessThan((x[frame] as number) + (widths[frame] as number));
  });

  it("of 10,000 nodes take less than a second", () => {
    const request = requestFor(mesh(100, 100));
    const layout = computeLayout(request);

    expect(fastestMs(() => computeLayout(request), 3)).toBeLessThan(1_000);
    expect(findOverlap(layout)).toBeNull();
    expect(countBackwardEdges(layout)).toBe(0);
  });

  it("have different keys for different graphs and directions", () => {
    const keys = [requestFor(fan(20)), requestFor(fan(21)), requestFor(fan(20), "down"), requestFor(mesh(5, 5))].map(
      cacheKey,
    );

    expect(new Set(keys).size).toBe(4);
    expect(cacheKey(requestFor(fan(20)))).toBe(keys[0]);
  });
});

describe("removeOverlaps", () => {
  it("keeps preferred positions without overlap, and distributes the shift otherwise", () => {
    expect(removeOverlaps([0, 100, 200], [10, 10, 10], 5)).toEqual([0, 100, 200]);
    expect(removeOverlaps([0, 0], [10, 10], 0)).toEqual([-5, 5]);
    expect(removeOverlaps([50, 0, 300], [20, 20, 20], 10)).toEqual([10, 40, 300]);
  });
});
