// Everything that the drawing of a graph depends on, except the camera.

import { edgeCount } from "./edges";
import type { Layout } from "./layout_types";
import { edgeStyle } from "./tones";
import type { Colors } from "./use_colors";
import type { Box } from "./viewport";

export interface Scene {
  layout: Layout;
  /** The following are by unit. */
  tones: Uint8Array;
  names: readonly string[];
  /** Whether the unit is the frame around the members of an expanded group. */
  isFrame: readonly boolean[];
  colors: Colors;
  /** The unit of the selected node, or -1. */
  selected: number;
  /** Units with a label. */
  highlighted: ReadonlySet<number>;
  /** Edges to running units. */
  activeEdges: number[];
  /** Edges to and from the selected unit. */
  selectedEdges: number[];
}

// They are drawn again with every frame; the motion of more would not be recognizable.
const ACTIVE_EDGES_MAX = 80;
// More would cover everything else.
const SELECTED_EDGES_MAX = 200;

/** The edges to running units; empty if there are too many to animate. */
export function findActiveEdges(layout: Layout, tones: Uint8Array): number[] {
  const edges: number[] = [];
  for (let edge = 0; edge < edgeCount(layout); edge++) {
    if (styleOf(layout, tones, edge) === "active" && edges.push(edge) > ACTIVE_EDGES_MAX) {
      return [];
    }
  }
  return edges;
}

export function findEdgesOf(layout: Layout, unit: number): number[] {
  const edges: number[] = [];
  for (let index = 0; index < layout.edges.length && edges.length < SELECTED_EDGES_MAX && unit >= 0; index++) {
    if (layout.edges[index] === unit) {
      edges.push(index >> 1);
    }
  }
  return edges;
}

export function styleOf(layout: Layout, tones: Uint8Array, edge: number) {
  return edgeStyle(
    tones[layout.edges[2 * edge] as number] as number,
    tones[layout.edges[2 * edge + 1] as number] as number,
  );
}

export function boxOf(layout: Layout, unit: number): Box {
  return {
    x: layout.x[unit] as number,
    y: layout.y[unit] as number,
    width: layout.widths[unit] as number,
    height: layout.heights[unit] as number,
  };
}

/** Whether a part of the unit is in the box. */
export function isInBox(layout: Layout, unit: number, box: Box): boolean {
  const x = layout.x[unit] as number;
  const y = layout.y[unit] as number;
  return (
    x < box.x + box.width &&
    box.x < x + (layout.widths[unit] as number) &&
    y < box.y + box.height &&
    box.y < y + (layout.heights[unit] as number)
  );
}

/** The unit at a point of the drawing, or -1. Members of expanded groups come before their frame. */
export function unitAt(layout: Layout, x: number, y: number): number {
  for (let unit = layout.x.length - 1; unit >= 0; unit--) {
    const dx = x - (layout.x[unit] as number);
    const dy = y - (layout.y[unit] as number);
    if (dx >= 0 && dy >= 0 && dx <= (layout.widths[unit] as number) && dy <= (layout.heights[unit] as number)) {
      return unit;
    }
  }
  return -1;
}
