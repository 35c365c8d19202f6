// Requests and results of the layout: typed arrays, which are cheap to pass to and from the worker.

export type Direction = "right" | "down";

export interface LayoutRequest {
  direction: Direction;
  widths: Float32Array;
  heights: Float32Array;
  /** Pairs of units: from and to. */
  edges: Int32Array;
}

export interface Layout {
  direction: Direction;
  /** Top left corners. */
  x: Float32Array;
  y: Float32Array;
  widths: Float32Array;
  heights: Float32Array;
  edges: Int32Array;
  /** Points (x, y) of edges between their ends; those of edge n begin at bendStarts[n]. */
  bends: Float32Array;
  bendStarts: Int32Array;
  width: number;
  height: number;
}

/** A 64-bit hash of a request. */
export function cacheKey(request: LayoutRequest): string {
  let low = 0x811c9dc5;
  let high = 0x9e3779b9;
  const add = (value: number) => {
    low = Math.imul(low ^ value, 16_777_619);
    high = Math.imul(high + value, 0x85ebca6b) ^ (high >>> 13);
  };
  add(request.direction === "right" ? 1 : 2);
  add(request.widths.length);
  request.widths.forEach(add);
  request.heights.forEach(add);
  request.edges.forEach(add);
  return `${(low >>> 0).toString(36)}.${(high >>> 0).toString(36)}`;
}

export function unitCount(layout: { widths: Float32Array }): number {
  return layout.widths.length;
}
