// Definitions of given shapes, and a clock, for tests.

import type { Definition, NodeDefinition } from "../../api/types";

export function definition(edges: Record<string, string[]>, handler = "echo"): Definition {
  return {
    workflow_id: "shape",
    nodes: Object.entries(edges).map(([id, dependencies]) => ({ id, handler, dependencies })),
  };
}

/** One node, many after it, and one after all of them. */
export function fan(width: number): Definition {
  const nodes: NodeDefinition[] = [{ id: "first", handler: "echo" }];
  for (let place = 0; place < width; place++) {
    nodes.push({ id: `item_${place}`, handler: "sleep", dependencies: ["first"] });
  }
  const all = nodes.slice(1).map((node) => node.id);
  return { workflow_id: "fan", nodes: [...nodes, { id: "last", handler: "echo", dependencies: all }] };
}

/** Layers of nodes, each of which waits for a few of the layer before; no two are alike. */
export function mesh(layers: number, width: number): Definition {
  const nodes: NodeDefinition[] = [];
  for (let layer = 0; layer < layers; layer++) {
    for (let place = 0; place < width; place++) {
      const above = [place, (place * 7 + layer) % width, (place + 1) % width];
      const dependencies = layer === 0 ? [] : [...new Set(above)].map((one) => `n_${layer - 1}_${one}`);
      nodes.push({ id: `n_${layer}_${place}`, handler: "echo", dependencies });
    }
  }
  return { workflow_id: "mesh", nodes };
}

/** Milliseconds of processor time of the quickest of a few tries: a busy machine makes any of them slow. */
export function quickest(act: () => void, tries = 5): number {
  const times = Array.from({ length: tries }, () => {
    const before = process.cpuUsage();
    act();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...times);
}
