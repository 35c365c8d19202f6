// How large the units of a graph are drawn, and from that what the layout is asked for.

import type { Graph } from "../model/graph";
import type { Drawn, Unit } from "../model/groups";
import type { Direction, Layout, LayoutRequest } from "./layout_types";

export const CARD_WIDTH = 208;
export const CARD_HEIGHT = 54;
/** Loops and groups tell of their parts in a row more. */
const LARGE_WIDTH = 240;
const LARGE_HEIGHT = 78;
const MARKER_WIDTH = 92;
const MARKER_HEIGHT = 34;

const GRID_GAP = 16;
/** The line around an opened group, and the head with its name. */
const FRAME_PADDING = 18;
export const FRAME_HEAD = 52;
const GRID_ASPECT: Record<Direction, number> = { right: 2, down: 0.8 };

export function sizeOf(graph: Graph, unit: Unit, direction: Direction): [width: number, height: number] {
  if (unit.inside >= 0) {
    const { columns, rows, width, height } = gridOf(graph, unit, direction);
    return [columns * width - GRID_GAP + 2 * FRAME_PADDING, rows * height - GRID_GAP + FRAME_HEAD + FRAME_PADDING];
  }
  const node = graph.nodes[unit.members[0] as number];
  if (unit.kind === "group" || node?.isLoop) {
    return [LARGE_WIDTH, LARGE_HEIGHT];
  }
  return node?.kind === "task" ? [CARD_WIDTH, CARD_HEIGHT] : [MARKER_WIDTH, MARKER_HEIGHT];
}

/** The columns and rows in which an opened group shows its members, and how large a place is. */
function gridOf(graph: Graph, group: Unit, direction: Direction) {
  const isLoop = graph.nodes[group.members[0] as number]?.isLoop;
  const width = (isLoop ? LARGE_WIDTH : CARD_WIDTH) + GRID_GAP;
  const height = (isLoop ? LARGE_HEIGHT : CARD_HEIGHT) + GRID_GAP;
  const many = group.members.length;
  const columns = Math.max(1, Math.round(Math.sqrt((many * height * GRID_ASPECT[direction]) / width)));
  return { columns, rows: Math.ceil(many / columns), width, height };
}

/** The layout of what stands for the whole graph is asked for; members of opened groups are placed within those. */
export function requestOf(graph: Graph, drawn: Drawn, direction: Direction): LayoutRequest {
  const widths = new Float32Array(drawn.outer);
  const heights = new Float32Array(drawn.outer);
  const edges: number[] = [];
  for (let from = 0; from < drawn.outer; from++) {
    const unit = drawn.units[from] as Unit;
    const [width, height] = sizeOf(graph, unit, direction);
    widths[from] = width;
    heights[from] = height;
    for (const to of unit.children) {
      edges.push(from, to);
    }
  }
  return { direction, widths, heights, edges: new Int32Array(edges) };
}

/** The layout of all units. */
export function withMembers(graph: Graph, drawn: Drawn, layout: Layout): Layout {
  if (drawn.units.length === drawn.outer) {
    return layout;
  }
  const grown = (values: Float32Array) => {
    const all = new Float32Array(drawn.units.length);
    all.set(values);
    return all;
  };
  const all = { x: grown(layout.x), y: grown(layout.y), widths: grown(layout.widths), heights: grown(layout.heights) };
  drawn.units.slice(0, drawn.outer).forEach((group, number) => {
    if (group.inside < 0) {
      return;
    }
    const { columns, width, height } = gridOf(graph, group, layout.direction);
    group.members.forEach((_, place) => {
      const unit = group.inside + place;
      all.x[unit] = (layout.x[number] as number) + FRAME_PADDING + (place % columns) * width;
      all.y[unit] = (layout.y[number] as number) + FRAME_HEAD + Math.floor(place / columns) * height;
      all.widths[unit] = width - GRID_GAP;
      all.heights[unit] = height - GRID_GAP;
    });
  });
  return { ...layout, ...all };
}
