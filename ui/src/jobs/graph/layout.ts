// Chooses the layout algorithm. Runs in the web worker.

import { dagreLayout } from "./dagre_layout";
import { layeredLayout } from "./layered_layout";
import { type Layout, type LayoutRequest, unitCount } from "./layout_types";

// dagre takes seconds for larger graphs.
const DAGRE_UNITS_MAX = 250;
const DAGRE_EDGES_MAX = 600;

export function computeLayout(request: LayoutRequest): Layout {
  const isSmall = unitCount(request) <= DAGRE_UNITS_MAX && request.edges.length / 2 <= DAGRE_EDGES_MAX;
  return isSmall ? dagreLayout(request) : layeredLayout(request);
}
