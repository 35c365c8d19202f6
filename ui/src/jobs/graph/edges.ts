// The curves of edges between units.

import type { Layout } from "./layout_types";
import { CARD_HEIGHT, CARD_WIDTH } from "./unit_sizes";
import type { Box } from "./viewport";

/** The path methods of a canvas. */
export interface Path {
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
  bezierCurveTo(x1: number, y1: number, x2: number, y2: number, x: number, y: number): void;
}

export function edgeCount(layout: Layout): number {
  return layout.edges.length / 2;
}

/** The end points of an edge. */
export function endPoints(layout: Layout, edge: number): [x1: number, y1: number, x2: number, y2: number] {
  const from = layout.edges[2 * edge] as number;
  const to = layout.edges[2 * edge + 1] as number;
  const { x, y, widths, heights } = layout;
  if (layout.direction === "right") {
    return [
      (x[from] as number) + (widths[from] as number),
      (y[from] as number) + (heights[from] as number) / 2,
      x[to] as number,
      (y[to] as number) + (heights[to] as number) / 2,
    ];
  }
  return [
    (x[from] as number) + (widths[from] as number) / 2,
    (y[from] as number) + (heights[from] as number),
    (x[to] as number) + (widths[to] as number) / 2,
    y[to] as number,
  ];
}

/** Whether the edge may intersect the box. Allocates nothing, since it runs for all edges with every painting. */
export function mayIntersect(layout: Layout, edge: number, box: Box): boolean {
  const { x, y, widths, heights, bends, bendStarts } = layout;
  const from = layout.edges[2 * edge] as number;
  const to = layout.edges[2 * edge + 1] as number;
  let left = Math.min(x[from] as number, x[to] as number);
  let top = Math.min(y[from] as number, y[to] as number);
  let right = Math.max((x[from] as number) + (widths[from] as number), (x[to] as number) + (widths[to] as number));
  let bottom = Math.max((y[from] as number) + (heights[from] as number), (y[to] as number) + (heights[to] as number));
  for (let index = bendStarts[edge] as number; index < (bendStarts[edge + 1] as number); index += 2) {
    left = Math.min(left, bends[index] as number);
    right = Math.max(right, bends[index] as number);
    top = Math.min(top, bends[index + 1] as number);
    bottom = Math.max(bottom, bends[index + 1] as number);
  }
  return left <= box.x + box.width && right >= box.x && top <= box.y + box.height && bottom >= box.y;
}

export function traceEdge(path: Path, layout: Layout, edge: number, isStraight = false): void {
  const [x1, y1, x2, y2] = endPoints(layout, edge);
  path.moveTo(x1, y1);
  if (isStraight) {
    path.lineTo(x2, y2);
    return;
  }
  const isRight = layout.direction === "right";
  const half = (isRight ? CARD_WIDTH : CARD_HEIGHT) / 2;
  let [x, y] = [x1, y1];
  for (let index = layout.bendStarts[edge] as number; index < (layout.bendStarts[edge + 1] as number); index += 2) {
    const [bendX, bendY] = [layout.bends[index] as number, layout.bends[index + 1] as number];
    // Straight beside other units, curved between ranks.
    const [entryX, entryY] = isRight ? [bendX - half, bendY] : [bendX, bendY - half];
    curve(path, isRight, x, y, entryX, entryY);
    [x, y] = isRight ? [bendX + half, bendY] : [bendX, bendY + half];
    path.lineTo(x, y);
  }
  curve(path, isRight, x, y, x2, y2);
}

function curve(path: Path, isRight: boolean, x1: number, y1: number, x2: number, y2: number): void {
  if (isRight) {
    const reach = Math.max(10, Math.min(120, (x2 - x1) / 2));
    path.bezierCurveTo(x1 + reach, y1, x2 - reach, y2, x2, y2);
  } else {
    const reach = Math.max(10, Math.min(120, (y2 - y1) / 2));
    path.bezierCurveTo(x1, y1 + reach, x2, y2 - reach, x2, y2);
  }
}

/** The arrow at the end of an edge. */
export function traceArrow(path: Path, layout: Layout, edge: number): void {
  const [, , x, y] = endPoints(layout, edge);
  const [length, halfWidth] = [6.5, 3.6];
  if (layout.direction === "right") {
    path.moveTo(x, y);
    path.lineTo(x - length, y - halfWidth);
    path.lineTo(x - length, y + halfWidth);
  } else {
    path.moveTo(x, y);
    path.lineTo(x - halfWidth, y - length);
    path.lineTo(x + halfWidth, y - length);
  }
  path.lineTo(x, y);
}
