// A definition as a graph of numbered nodes, in an order in which they may run.

import type { Definition, NodeDefinition } from "../../api/types";

export type NodeKind = "task" | "start" | "end";

export interface GraphNode {
  id: string;
  kind: NodeKind;
  /** What runs it; START and END have their kind here. */
  handler: string;
  isLoop: boolean;
  hasWhen: boolean;
  parents: number[];
  children: number[];
  /** The length of the longest way to it. */
  rank: number;
}

/** The numbers are those of the engine's plan: level by level, and as written within a level. */
export interface Graph {
  nodes: GraphNode[];
  index: Map<string, number>;
}

export function graphOf(definition: Definition): Graph {
  const written = definition.nodes;
  const places = new Map(written.map((node, place) => [node.id, place]));
  const parents = written.map((node) => placesOf(node.dependencies ?? [], places));
  const { order, ranks, children } = ordered(parents);
  const numbers = new Int32Array(written.length);
  order.forEach((place, number) => {
    numbers[place] = number;
  });
  const nodes = order.map((place) => nodeOf(written[place] as NodeDefinition, ranks[place] ?? 0));
  // In the order of the parents, so that nobody's parents have to be sorted.
  order.forEach((place, number) => {
    for (const below of children[place] ?? []) {
      const child = numbers[below] as number;
      // A document that is not checked yet may have a cycle: what would close it is left out.
      if (number < child) {
        nodes[child]?.parents.push(number);
      }
    }
  });
  nodes.forEach((node, number) => {
    for (const parent of node.parents) {
      nodes[parent]?.children.push(number);
    }
  });
  return { nodes, index: new Map(nodes.map((node, number) => [node.id, number])) };
}

// Of longer lists a set is made; for most it would cost more than it saves.
const SHORT_LIST_MAX = 16;

function placesOf(ids: string[], places: Map<string, number>): number[] {
  const found: number[] = [];
  for (const id of ids.length > SHORT_LIST_MAX ? new Set(ids) : ids) {
    const place = places.get(id);
    if (place !== undefined && (ids.length > SHORT_LIST_MAX || !found.includes(place))) {
      found.push(place);
    }
  }
  return found;
}

/** Kahn's algorithm, level by level; what is on a cycle comes last. */
function ordered(parents: number[][]): { order: number[]; ranks: Int32Array; children: number[][] } {
  const children: number[][] = parents.map(() => []);
  const missing = new Int32Array(parents.length);
  parents.forEach((above, node) => {
    missing[node] = above.length;
    for (const parent of above) {
      children[parent]?.push(node);
    }
  });
  const order: number[] = [];
  const ranks = new Int32Array(parents.length);
  const isPlaced = new Uint8Array(parents.length);
  let level = [...parents.keys()].filter((node) => missing[node] === 0);
  for (let rank = 0; level.length > 0; rank++) {
    const next: number[] = [];
    for (const node of level) {
      order.push(node);
      ranks[node] = rank;
      isPlaced[node] = 1;
      for (const child of children[node] ?? []) {
        missing[child] = (missing[child] as number) - 1;
        if (missing[child] === 0) {
          next.push(child);
        }
      }
    }
    level = next.sort((one, other) => one - other);
  }
  parents.forEach((_, node) => {
    if (!isPlaced[node]) {
      order.push(node);
    }
  });
  return { order, ranks, children };
}

function nodeOf(written: NodeDefinition, rank: number): GraphNode {
  const kind = written.kind === "start" || written.kind === "end" ? written.kind : "task";
  return {
    id: written.id,
    kind,
    handler: kind === "task" ? written.handler : kind,
    isLoop: written.loop !== undefined && written.loop !== null,
    hasWhen: written.when !== undefined && written.when !== null,
    parents: [],
    children: [],
    rank,
  };
}
