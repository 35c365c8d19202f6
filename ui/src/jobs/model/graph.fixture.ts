// Workflow definitions and a timer for tests.

import type { Definition, NodeDefinition } from "../../api/types";

export function definition(edges: Record<string, string[]>, handler = "echo"): Definition {
  return {
    workflow_id: "shape",
    nodes: Object.entries(edges).map(([id, dependencies]) => ({ id, handler, dependencies })),
  };
}

/** A fan-out from one node and a fan-in to another. */
export function fan(width: number): Definition {
  const nodes: NodeDefinition[] = [{ id: "first", handler: "echo" }];
  for (let index = 0; index < width; index++) {
    nodes.push({ id: `item_${index}`, handler: "sleep", dependencies: ["first"] });
  }
  const all = nodes.slice(1).map((node) => node.id);
  return { workflow_id: "fan", nodes: [...nodes, { id: "last", handler: "echo", dependencies: all }] };
}

/** Layers of nodes that each depend on a few nodes of the previous layer; no two have the same neighbors. */
export function mesh(layers: number, width: number): Definition {
  const nodes: NodeDefinition[] = [];
  for (let layer = 0; layer < layers; layer++) {
    for (let index = 0; index < width; index++) {
      const parents = [index, (index * 7 + layer) % width, (index + 1) % width];
      const dependencies = layer === 0 ? [] : [...new Set(parents)].map((parent) => `n_${layer - 1}_${parent}`);
      nodes.push({ id: `n_${layer}_${index}`, handler: "echo", dependencies });
    }
  }
  return { workflow_id: "mesh", nodes };
}

/** CPU milliseconds of the fastest of several tries, since other processes may slow down any of them. */
export function fastestMs(run: () => void, tries = 5): number {
  const times = Array.from({ length: tries }, () => {
    const before = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...times);
}
