// Everything that a drawing of the graph depends on, but where one looks from.

import { edgeCount } from "./edges";
import type { Layout } from "./layout_types";
import { edgeLook } from "./tones";
import type { Colours } from "./use_colors";
import type { Box } from "./viewport";

export interface Scene {
  layout: Layout;
  /** By unit. */
  tones: Uint8Array;
  names: readonly string[];
  /** Whether it is the frame around the members of an opened group. */
  isFrame: readonly boolean[];
  colours: Colours;
  /** The unit of the selected node, or -1. */
  selected: number;
  /** Units that something is said about. */
  marked: ReadonlySet<number>;
  /** Edges into what runs. */
  flowing: number[];
  /** Edges to and from the selected unit. */
  own: number[];
}

// Each of them is drawn again with every frame.
const FLOWING_MAX = 80;

/** None when there are so many that their motion would tell nothing. */
export function flowingEdges(layout: Layout, tones: Uint8Array): number[] {
  const found: number[] = [];
  for (let edge = 0; edge < edgeCount(layout); edge++) {
    if (lookOf(layout, tones, edge) === "flowing" && found.push(edge) > FLOWING_MAX) {
      return [];
    }
  }
  return found;
}

// A unit may have thousands of them; more would only be a blot.
const OWN_MAX = 200;

export function ownEdges(layout: Layout, unit: number): number[] {
  const found: number[] = [];
  for (let at = 0; at < layout.edges.length && found.length < OWN_MAX && unit >= 0; at++) {
    if (layout.edges[at] === unit) {
      found.push(at >> 1);
    }
  }
  return found;
}

export function lookOf(layout: Layout, tones: Uint8Array, edge: number) {
  return edgeLook(
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

/** Whether a unit lies in the box, at least in part. */
export function isIn(layout: Layout, unit: number, box: Box): boolean {
  const x = layout.x[unit] as number;
  const y = layout.y[unit] as number;
  return (
    x < box.x + box.width &&
    box.x < x + (layout.widths[unit] as number) &&
    y < box.y + box.height &&
    box.y < y + (layout.heights[unit] as number)
  );
}

/** The unit at a place of the drawing, or -1; members of opened groups lie above. */
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
