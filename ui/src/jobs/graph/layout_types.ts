// What a layout is asked for and what it answers: plain arrays, which cross to the worker and back without copies.

export type Direction = "right" | "down";

export interface LayoutRequest {
  direction: Direction;
  widths: Float32Array;
  heights: Float32Array;
  /** Pairs of units: from, to. */
  edges: Int32Array;
}

export interface Layout {
  direction: Direction;
  /** Left upper corners. */
  x: Float32Array;
  y: Float32Array;
  widths: Float32Array;
  heights: Float32Array;
  edges: Int32Array;
  /** Places (x, y) that edges pass through between other units; those of edge n begin at bendStarts[n]. */
  bends: Float32Array;
  bendStarts: Int32Array;
  width: number;
  height: number;
}

/** The same for two requests only if their layouts are the same, as far as 64 bits tell. */
export function keyOf(request: LayoutRequest): string {
  let one = 0x811c9dc5;
  let other = 0x9e3779b9;
  const take = (value: number) => {
    one = Math.imul(one ^ value, 16_777_619);
    other = Math.imul(other + value, 0x85ebca6b) ^ (other >>> 13);
  };
  take(request.direction === "right" ? 1 : 2);
  take(request.widths.length);
  request.widths.forEach(take);
  request.heights.forEach(take);
  request.edges.forEach(take);
  return `${(one >>> 0).toString(36)}.${(other >>> 0).toString(36)}`;
}

export function unitCount(layout: { widths: Float32Array }): number {
  return layout.widths.length;
}
