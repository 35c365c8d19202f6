// Builds a graph of numbered nodes in topological order from a definition.

import type { Definition, NodeDefinition } from "../../api/types";

export type NodeKind = "task" | "start" | "end";

export interface GraphNode {
  id: string;
  kind: NodeKind;
  /** The handler; for START and END nodes their kind. */
  handler: string;
  isLoop: boolean;
  hasWhen: boolean;
  parents: number[];
  children: number[];
  /** Length of the longest path to the node. */
  rank: number;
}

/** Nodes are numbered like in the engine's plan: level by level, in document order within a level. */
export interface Graph {
  nodes: GraphNode[];
  index: Map<string, number>;
}

export function buildGraph(definition: Definition): Graph {
  const definitions = definition.nodes;
  const indexes = new Map(definitions.map((node, index) => [node.id, index]));
  const parents = definitions.map((node) => indexesOf(node.dependencies ?? [], indexes));
  const { order, ranks, children } = sortTopologically(parents);
  const numbers = new Int32Array(definitions.length);
  order.forEach((index, number) => {
    numbers[index] = number;
  });
  const nodes = order.map((index) => toGraphNode(definitions[index] as NodeDefinition, ranks[index] ?? 0));
  // Iterating in graph order keeps every list of parents sorted.
  order.forEach((index, number) => {
    for (const childIndex of children[index] ?? []) {
      const child = numbers[childIndex] as number;
      // An unvalidated document may have a cycle: omit the edge that closes it.
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

// For short lists a set costs more than a linear search.
const SHORT_LIST_MAX = 16;

function indexesOf(ids: string[], indexes: Map<string, number>): number[] {
  const result: number[] = [];
  for (const id of ids.length > SHORT_LIST_MAX ? new Set(ids) : ids) {
    const index = indexes.get(id);
    if (index !== undefined && (ids.length > SHORT_LIST_MAX || !result.includes(index))) {
      result.push(index);
    }
  }
  return result;
}

/** Kahn's algorithm, level by level. Nodes on a cycle come last. */
function sortTopologically(parents: number[][]): { order: number[]; ranks: Int32Array; children: number[][] } {
  const children: number[][] = parents.map(() => []);
  const remaining = new Int32Array(parents.length);
  parents.forEach((nodeParents, node) => {
    remaining[node] = nodeParents.length;
    for (const parent of nodeParents) {
      children[parent]?.push(node);
    }
  });
  const order: number[] = [];
  const ranks = new Int32Array(parents.length);
  const isSorted = new Uint8Array(parents.length);
  let level = [...parents.keys()].filter((node) => remaining[node] === 0);
  for (let rank = 0; level.length > 0; rank++) {
    const next: number[] = [];
    for (const node of level) {
      order.push(node);
      ranks[node] = rank;
      isSorted[node] = 1;
      for (const child of children[node] ?? []) {
        remaining[child] = (remaining[child] as number) - 1;
        if (remaining[child] === 0) {
          next.push(child);
        }
      }
    }
    level = next.sort((one, other) => one - other);
  }
  parents.forEach((_, node) => {
    if (!isSorted[node]) {
      order.push(node);
    }
  });
  return { order, ranks, children };
}

function toGraphNode(definition: NodeDefinition, rank: number): GraphNode {
  const kind = definition.kind === "start" || definition.kind === "end" ? definition.kind : "task";
  return {
    id: definition.id,
    kind,
    handler: kind === "task" ? definition.handler : kind,
    isLoop: definition.loop !== undefined && definition.loop !== null,
    hasWhen: definition.when !== undefined && definition.when !== null,
    parents: [],
    children: [],
    rank,
  };
}
