// The scene of a graph and the state of a job, updated when either changes.

import { useMemo } from "react";
import type { Graph } from "../model/graph";
import type { UnitGraph } from "../model/groups";
import type { JobState } from "../model/state";
import type { Layout } from "./layout_types";
import { findActiveEdges, findEdgesOf, type Scene } from "./scene";
import { tonesOf } from "./tones";
import { unitName } from "./unit_names";
import { useColors } from "./use_colors";

interface SceneInputs {
  graph: Graph;
  unitGraph: UnitGraph;
  layout: Layout | null;
  state: JobState | null;
  labels: ReadonlyMap<string, string> | undefined;
  selected: number;
}

export function useScene({ graph, unitGraph, layout, state, labels, selected }: SceneInputs): Scene | null {
  const colors = useColors();
  const version = state?.version ?? -1;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a state that changed in place has another version
  const tones = useMemo(() => tonesOf(unitGraph, state), [unitGraph, state, version]);
  const units = useMemo(
    () => ({
      names: unitGraph.units.map((unit) => unitName(graph, unit)),
      isFrame: unitGraph.units.map((unit) => unit.firstMember >= 0),
    }),
    [graph, unitGraph],
  );
  const highlighted = useMemo(() => {
    const labeled = new Set<number>();
    for (const id of labels?.keys() ?? []) {
      labeled.add(unitOf(graph, unitGraph, id));
    }
    return labeled;
  }, [graph, unitGraph, labels]);
  const selectedEdges = useMemo(
    () => (layout ? findEdgesOf(layout, unitWithEdges(unitGraph, selected)) : []),
    [layout, unitGraph, selected],
  );
  return useMemo(() => {
    if (layout === null) {
      return null;
    }
    const activeEdges = findActiveEdges(layout, tones);
    return { ...units, layout, tones, colors, selected, highlighted, activeEdges, selectedEdges };
  }, [layout, selectedEdges, units, tones, colors, selected, highlighted]);
}

/** The members of an expanded group share the edges of the group. */
function unitWithEdges(unitGraph: UnitGraph, unit: number): number {
  const group = unitGraph.units[unit]?.group ?? -1;
  return group >= 0 ? group : unit;
}

/** The unit that shows a node, or -1. */
export function unitOf(graph: Graph, unitGraph: UnitGraph, nodeId: string | null): number {
  if (nodeId === null) {
    return -1;
  }
  return unitGraph.unitOfNode[graph.index.get(nodeId) ?? -1] ?? -1;
}
