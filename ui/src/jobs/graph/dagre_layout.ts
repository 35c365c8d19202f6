// Layout of small graphs with dagre: short edges, few crossings, and edges routed around nodes.

import { Graph, layout } from "@dagrejs/dagre";
import type { Layout, LayoutRequest } from "./layout_types";

const NODE_GAP = 22;
const EDGE_GAP = 14;
const RANK_GAP = 64;

interface Point {
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
  for (let index = 0; index < edges.length; index += 2) {
    graph.setEdge(String(edges[index]), String(edges[index + 1]));
  }
  layout(graph);
  return readLayout(graph, request);
}

function readLayout(graph: Graph, request: LayoutRequest): Layout {
  const { widths, heights, edges, direction } = request;
  const centers = Array.from(widths, (_, unit) => graph.node(String(unit)) as unknown as Point);
  const x = Float32Array.from(widths, (width, unit) => (centers[unit]?.x ?? 0) - width / 2);
  const y = Float32Array.from(heights, (height, unit) => (centers[unit]?.y ?? 0) - height / 2);
  const bends: number[] = [];
  const bendStarts = [0];
  for (let index = 0; index < edges.length; index += 2) {
    const edge = graph.edge(String(edges[index]), String(edges[index + 1])) as unknown as { points: Point[] };
    // dagre adds a point on each rank that an edge crosses and one between ranks; the end points are on borders.
    edge.points.slice(1, -1).forEach((point, pointIndex) => {
      if (pointIndex % 2 === 1) {
        bends.push(point.x, point.y);
      }
    });
    bendStarts.push(bends.length);
  }
  const result = {
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
  mirrorIfReversed(result);
  return result;
}

function endOf(starts: Float32Array, sizes: Float32Array): number {
  return starts.reduce((end, start, unit) => Math.max(end, start + (sizes[unit] as number)), 0);
}

/** Mirror the layout if most units are in reverse document order, which dagre ignores. */
function mirrorIfReversed(layout: Layout): void {
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
  for (let index = isRight ? 1 : 0; index < layout.bends.length; index += 2) {
    layout.bends[index] = breadth - (layout.bends[index] as number);
  }
}
