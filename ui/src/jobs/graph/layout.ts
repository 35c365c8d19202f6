// Chooses how a graph is laid out. Runs in the worker.

import { dagreLayout } from "./dagre_layout";
import { layeredLayout } from "./layered_layout";
import { type Layout, type LayoutRequest, unitCount } from "./layout_types";

// Beyond these dagre takes seconds.
const DAGRE_UNITS_MAX = 250;
const DAGRE_EDGES_MAX = 600;

export function layoutOf(request: LayoutRequest): Layout {
  const isSmall = unitCount(request) <= DAGRE_UNITS_MAX && request.edges.length / 2 <= DAGRE_EDGES_MAX;
  return isSmall ? dagreLayout(request) : layeredLayout(request);
}
