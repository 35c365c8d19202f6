// The layout of a small graph, by dagre: short edges, few crossings, and ways for edges that pass other nodes.

import { Graph, layout } from "@dagrejs/dagre";
import type { Layout, LayoutRequest } from "./layout_types";

const NODE_GAP = 22;
const EDGE_GAP = 14;
const RANK_GAP = 64;

interface Place {
  x: number;
  y: number;
}

export function dagreLayout(request: LayoutRequest): Layout {
  const { widths, heights, edges, direction } = request;
  const graph = new Graph();
  graph.setGraph({
    rankdir: direction === "right" ? "LR" : "TB",
    nodesep: NODE_GAP,
    edgesep: EDGE_GAP,
    ranksep: direction === "right" ? RANK_GAP : RANK_GAP * 0.75,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  widths.forEach((width, unit) => {
    graph.setNode(String(unit), { width, height: heights[unit] as number });
  });
  for (let at = 0; at < edges.length; at += 2) {
    graph.setEdge(String(edges[at]), String(edges[at + 1]));
  }
  layout(graph);
  return read(graph, request);
}

function read(graph: Graph, request: LayoutRequest): Layout {
  const { widths, heights, edges, direction } = request;
  const places = Array.from(widths, (_, unit) => graph.node(String(unit)) as unknown as Place);
  const x = Float32Array.from(widths, (width, unit) => (places[unit]?.x ?? 0) - width / 2);
  const y = Float32Array.from(heights, (height, unit) => (places[unit]?.y ?? 0) - height / 2);
  const bends: number[] = [];
  const bendStarts = [0];
  for (let at = 0; at < edges.length; at += 2) {
    const edge = graph.edge(String(edges[at]), String(edges[at + 1])) as unknown as { points: Place[] };
    // dagre puts a point on each rank that an edge passes and one between any two; the ends are on the borders.
    edge.points.slice(1, -1).forEach((point, place) => {
      if (place % 2 === 1) {
        bends.push(point.x, point.y);
      }
    });
    bendStarts.push(bends.length);
  }
  const found = {
    direction,
    x,
    y,
    widths,
    heights,
    edges,
    bends: Float32Array.from(bends),
    bendStarts: Int32Array.from(bendStarts),
    width: endOf(x, widths),
    height: endOf(y, heights),
  };
  turnOver(found);
  return found;
}

function endOf(starts: Float32Array, sizes: Float32Array): number {
  return starts.reduce((most, start, unit) => Math.max(most, start + (sizes[unit] as number)), 0);
}

/** dagre does not mind which side is up: the better one has units in the order in which they are written. */
function turnOver(layout: Layout): void {
  const isRight = layout.direction === "right";
  const [along, across] = isRight ? [layout.x, layout.y] : [layout.y, layout.x];
  const sizes = isRight ? layout.heights : layout.widths;
  let inOrder = 0;
  for (let unit = 1; unit < along.length; unit++) {
    if (along[unit] === along[unit - 1]) {
      inOrder += Math.sign((across[unit] as number) - (across[unit - 1] as number));
    }
  }
  if (inOrder >= 0) {
    return;
  }
  const breadth = isRight ? layout.height : layout.width;
  across.forEach((start, unit) => {
    across[unit] = breadth - start - (sizes[unit] as number);
  });
  for (let at = isRight ? 1 : 0; at < layout.bends.length; at += 2) {
    layout.bends[at] = breadth - (layout.bends[at] as number);
  }
}
