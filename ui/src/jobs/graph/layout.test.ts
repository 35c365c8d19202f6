import { describe, expect, it } from "vitest";
import type { Definition } from "../../api/types";
import { graphOf } from "../model/graph";
import { definition, fan, mesh, quickest } from "../model/graph.fixture";
import { drawnOf, groupsOf } from "../model/groups";
import { layoutOf } from "./layout";
import { type Direction, keyOf, type Layout, type LayoutRequest } from "./layout_types";
import { settled } from "./remove_overlaps";
import { requestOf, withMembers } from "./unit_sizes";

function requested(written: Definition, direction: Direction = "right"): LayoutRequest {
  const graph = graphOf(written);
  return requestOf(graph, drawnOf(graph, [], new Set()), direction);
}

/** The pair that overlaps, if there is one: units sorted by their left side, each against those that it may touch. */
function overlap({ x, y, widths, heights }: Layout): [number, number] | null {
  const order = Array.from(x.keys()).sort((one, other) => (x[one] as number) - (x[other] as number));
  let open: number[] = [];
  for (const unit of order) {
    const left = x[unit] as number;
    open = open.filter((other) => (x[other] as number) + (widths[other] as number) > left);
    const top = y[unit] as number;
    const hit = open.find(
      (other) =>
        top < (y[other] as number) + (heights[other] as number) &&
        (y[other] as number) < top + (heights[unit] as number),
    );
    if (hit !== undefined) {
      return [hit, unit];
    }
    open.push(unit);
  }
  return null;
}

function backward(layout: Layout): number {
  const along = layout.direction === "right" ? layout.x : layout.y;
  const size = layout.direction === "right" ? layout.widths : layout.heights;
  let found = 0;
  for (let at = 0; at < layout.edges.length; at += 2) {
    const [from, to] = [layout.edges[at] as number, layout.edges[at + 1] as number];
    found += (along[from] as number) + (size[from] as number) > (along[to] as number) ? 1 : 0;
  }
  return found;
}

const ladder = definition({ a: [], b: ["a"], c: ["b"], d: ["c"], e: ["d", "a"], f: ["a"] });

describe.each(["right", "down"] as const)("a layout to the %s", (direction) => {
  it.each([
    ["a few nodes", ladder],
    ["a fan of 40", fan(40)],
    ["a fan of 1,000", fan(1_000)],
    ["a mesh of 2,000", mesh(40, 50)],
    [
      "nodes without edges",
      definition(Object.fromEntries(Array.from({ length: 400 }, (_, place) => [`n${place}`, []]))),
    ],
  ])("puts no unit over another and lets every edge lead on: %s", (_, written) => {
    const layout = layoutOf(requested(written, direction));

    expect(overlap(layout)).toBeNull();
    expect(backward(layout)).toBe(0);
    expect(Math.min(...layout.x, ...layout.y)).toBeGreaterThanOrEqual(-0.01);
    expect(layout.width).toBeGreaterThan(0);
  });
});

describe("layouts", () => {
  it("lead an edge that passes other nodes around them", () => {
    const layout = layoutOf(requested(ladder));
    const graph = graphOf(ladder);
    const [from, to] = [graph.index.get("a"), graph.index.get("e")];
    const edges = Array.from({ length: layout.edges.length / 2 }, (_, edge) => edge);
    const long = edges.find((edge) => layout.edges[2 * edge] === from && layout.edges[2 * edge + 1] === to) ?? -1;
    const bends = layout.bends.slice(layout.bendStarts[long], layout.bendStarts[long + 1]);

    expect(bends.length).toBe(6);
    for (let at = 0; at < bends.length; at += 2) {
      const [x, y] = [bends[at] as number, bends[at + 1] as number];
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

  it("keep the order in which units are written where edges do not ask for another", () => {
    const { y } = layoutOf(requested(fan(6)));
    const middle = [...y.slice(1, 7)];

    expect(middle).toEqual(middle.toSorted((one, other) => one - other));
  });

  it("of a wide fan are not a thousand nodes high", () => {
    const { width, height } = layoutOf(requested(fan(1_000)));

    expect(width / height).toBeGreaterThan(1);
    expect(width / height).toBeLessThan(4);
  });

  it("put the members of an opened group beside each other within its frame", () => {
    const graph = graphOf(fan(100));
    const groups = groupsOf(graph);
    const drawn = drawnOf(graph, groups, new Set(groups.map((group) => group.id)));
    const layout = withMembers(graph, drawn, layoutOf(requestOf(graph, drawn, "right")));
    const part = (values: Float32Array) => values.slice(drawn.outer);
    const { x, y, widths, heights } = layout;
    const members = { ...layout, x: part(x), y: part(y), widths: part(widths), heights: part(heights) };
    const frame = drawn.units.findIndex((unit) => unit.inside >= 0);

    expect(members.x.length).toBe(100);
    expect(overlap(members)).toBeNull();
    expect(Math.min(...members.x)).toBeGreaterThan(x[frame] as number);
    expect(Math.min(...members.y)).toBeGreaterThan(y[frame] as number);
    const right = Math.max(...members.x.map((left, unit) => left + (members.widths[unit] as number)));
    expect(right).toBeLessThan((x[frame] as number) + (widths[frame] as number));
  });

  it("of 10,000 nodes take less than a second", () => {
    const request = requested(mesh(100, 100));
    const layout = layoutOf(request);

    expect(quickest(() => layoutOf(request), 3)).toBeLessThan(1_000);
    expect(overlap(layout)).toBeNull();
    expect(backward(layout)).toBe(0);
  });

  it("have a key of their own for every graph and direction", () => {
    const keys = [requested(fan(20)), requested(fan(21)), requested(fan(20), "down"), requested(mesh(5, 5))].map(keyOf);

    expect(new Set(keys).size).toBe(4);
    expect(keyOf(requested(fan(20)))).toBe(keys[0]);
  });
});

describe("things in a row", () => {
  it("stay where they want to be when there is room, and share the way when there is not", () => {
    expect(settled([0, 100, 200], [10, 10, 10], 5)).toEqual([0, 100, 200]);
    expect(settled([0, 0], [10, 10], 0)).toEqual([-5, 5]);
    expect(settled([50, 0, 300], [20, 20, 20], 10)).toEqual([10, 40, 300]);
  });
});
