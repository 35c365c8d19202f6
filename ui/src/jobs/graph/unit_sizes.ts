// Sizes of units, layout requests, and positions of the members of expanded groups.

import type { Graph } from "../model/graph";
import type { Unit, UnitGraph } from "../model/groups";
import type { Direction, Layout, LayoutRequest } from "./layout_types";

export const CARD_WIDTH = 208;
export const CARD_HEIGHT = 54;
/** Loops and groups have a third line. */
const LARGE_WIDTH = 240;
const LARGE_HEIGHT = 78;
const MARKER_WIDTH = 92;
const MARKER_HEIGHT = 34;

const GRID_GAP = 16;
/** The frame around an expanded group, and its header. */
const FRAME_PADDING = 18;
export const FRAME_HEADER = 52;
const GRID_ASPECT: Record<Direction, number> = { right: 2, down: 0.8 };

export function unitSize(graph: Graph, unit: Unit, direction: Direction): [width: number, height: number] {
  if (unit.firstMember >= 0) {
    const { columns, rows, width, height } = memberGrid(graph, unit, direction);
    return [columns * width - GRID_GAP + 2 * FRAME_PADDING, rows * height - GRID_GAP + FRAME_HEADER + FRAME_PADDING];
  }
  const node = graph.nodes[unit.members[0] as number];
  if (unit.kind === "group" || node?.isLoop) {
    return [LARGE_WIDTH, LARGE_HEIGHT];
  }
  return node?.kind === "task" ? [CARD_WIDTH, CARD_HEIGHT] : [MARKER_WIDTH, MARKER_HEIGHT];
}

/** The grid of the members of an expanded group, with the size of a cell. */
function memberGrid(graph: Graph, group: Unit, direction: Direction) {
  const isLoop = graph.nodes[group.members[0] as number]?.isLoop;
  const width = (isLoop ? LARGE_WIDTH : CARD_WIDTH) + GRID_GAP;
  const height = (isLoop ? LARGE_HEIGHT : CARD_HEIGHT) + GRID_GAP;
  const count = group.members.length;
  const columns = Math.max(1, Math.round(Math.sqrt((count * height * GRID_ASPECT[direction]) / width)));
  return { columns, rows: Math.ceil(count / columns), width, height };
}

/** The layout request of the top-level units. */
export function layoutRequest(graph: Graph, unitGraph: UnitGraph, direction: Direction): LayoutRequest {
  const widths = new Float32Array(unitGraph.topLevelCount);
  const heights = new Float32Array(unitGraph.topLevelCount);
  const edges: number[] = [];
  for (let from = 0; from < unitGraph.topLevelCount; from++) {
    const unit = unitGraph.units[from] as Unit;
    const [width, height] = unitSize(graph, unit, direction);
    widths[from] = width;
    heights[from] = height;
    for (const to of unit.children) {
      edges.push(from, to);
    }
  }
  return { direction, widths, heights, edges: new Int32Array(edges) };
}

/** Extend a layout of the top-level units by the members of expanded groups. */
export function layoutWithMembers(graph: Graph, unitGraph: UnitGraph, layout: Layout): Layout {
  if (unitGraph.units.length === unitGraph.topLevelCount) {
    return layout;
  }
  const extend = (values: Float32Array) => {
    const all = new Float32Array(unitGraph.units.length);
    all.set(values);
    return all;
  };
  const all = {
    x: extend(layout.x),
    y: extend(layout.y),
    widths: extend(layout.widths),
    heights: extend(layout.heights),
  };
  unitGraph.units.slice(0, unitGraph.topLevelCount).forEach((group, number) => {
    if (group.firstMember < 0) {
      return;
    }
    const { columns, width, height } = memberGrid(graph, group, layout.direction);
    group.members.forEach((_, index) => {
      const unit = group.firstMember + index;
      all.x[unit] = (layout.x[number] as number) + FRAME_PADDING + (index % columns) * width;
      all.y[unit] = (layout.y[number] as number) + FRAME_HEADER + Math.floor(index / columns) * height;
      all.widths[unit] = width - GRID_GAP;
      all.heights[unit] = height - GRID_GAP;
    });
  });
  return { ...layout, ...all };
}
