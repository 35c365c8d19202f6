// The lines between units: from side to side in the direction of the graph, around what lies between.

import type { Layout } from "./layout_types";
import { CARD_HEIGHT, CARD_WIDTH } from "./unit_sizes";
import type { Box } from "./viewport";

/** What a line is drawn on: a canvas or a path. */
export interface Pen {
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
  bezierCurveTo(x1: number, y1: number, x2: number, y2: number, x: number, y: number): void;
}

export function edgeCount(layout: Layout): number {
  return layout.edges.length / 2;
}

/** Where an edge leaves one unit and reaches the other. */
export function endsOf(layout: Layout, edge: number): [x1: number, y1: number, x2: number, y2: number] {
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

/** Whether any part of the edge may lie in the box. It makes no objects: all edges are asked for every painting. */
export function mayTouch(layout: Layout, edge: number, box: Box): boolean {
  const { x, y, widths, heights, bends, bendStarts } = layout;
  const from = layout.edges[2 * edge] as number;
  const to = layout.edges[2 * edge + 1] as number;
  let left = Math.min(x[from] as number, x[to] as number);
  let top = Math.min(y[from] as number, y[to] as number);
  let right = Math.max((x[from] as number) + (widths[from] as number), (x[to] as number) + (widths[to] as number));
  let bottom = Math.max((y[from] as number) + (heights[from] as number), (y[to] as number) + (heights[to] as number));
  for (let at = bendStarts[edge] as number; at < (bendStarts[edge + 1] as number); at += 2) {
    left = Math.min(left, bends[at] as number);
    right = Math.max(right, bends[at] as number);
    top = Math.min(top, bends[at + 1] as number);
    bottom = Math.max(bottom, bends[at + 1] as number);
  }
  return left <= box.x + box.width && right >= box.x && top <= box.y + box.height && bottom >= box.y;
}

export function traceEdge(pen: Pen, layout: Layout, edge: number, isStraight = false): void {
  const [x1, y1, x2, y2] = endsOf(layout, edge);
  pen.moveTo(x1, y1);
  if (isStraight) {
    pen.lineTo(x2, y2);
    return;
  }
  const isRight = layout.direction === "right";
  const half = (isRight ? CARD_WIDTH : CARD_HEIGHT) / 2;
  let [x, y] = [x1, y1];
  for (let at = layout.bendStarts[edge] as number; at < (layout.bendStarts[edge + 1] as number); at += 2) {
    const [bendX, bendY] = [layout.bends[at] as number, layout.bends[at + 1] as number];
    // Straight past the units beside it, and curved between their ranks.
    const [inX, inY] = isRight ? [bendX - half, bendY] : [bendX, bendY - half];
    curve(pen, isRight, x, y, inX, inY);
    [x, y] = isRight ? [bendX + half, bendY] : [bendX, bendY + half];
    pen.lineTo(x, y);
  }
  curve(pen, isRight, x, y, x2, y2);
}

function curve(pen: Pen, isRight: boolean, x1: number, y1: number, x2: number, y2: number): void {
  if (isRight) {
    const reach = Math.max(10, Math.min(120, (x2 - x1) / 2));
    pen.bezierCurveTo(x1 + reach, y1, x2 - reach, y2, x2, y2);
  } else {
    const reach = Math.max(10, Math.min(120, (y2 - y1) / 2));
    pen.bezierCurveTo(x1, y1 + reach, x2, y2 - reach, x2, y2);
  }
}

/** The point of the arrow at an edge's end. */
export function traceArrow(pen: Pen, layout: Layout, edge: number): void {
  const [, , x, y] = endsOf(layout, edge);
  const [back, side] = [6.5, 3.6];
  if (layout.direction === "right") {
    pen.moveTo(x, y);
    pen.lineTo(x - back, y - side);
    pen.lineTo(x - back, y + side);
  } else {
    pen.moveTo(x, y);
    pen.lineTo(x - side, y - back);
    pen.lineTo(x + side, y - back);
  }
  pen.lineTo(x, y);
}
