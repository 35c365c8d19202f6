// What is drawn of a graph and the state of a job; made anew when one of them has changed.

import { useMemo } from "react";
import type { Graph } from "../model/graph";
import type { Drawn } from "../model/groups";
import type { JobState } from "../model/state";
import type { Layout } from "./layout_types";
import { flowingEdges, ownEdges, type Scene } from "./scene";
import { tonesOf } from "./tones";
import { nameOf } from "./unit_names";
import { useColours } from "./use_colors";

interface Shown {
  graph: Graph;
  drawn: Drawn;
  layout: Layout | null;
  state: JobState | null;
  marked: ReadonlyMap<string, string> | undefined;
  selected: number;
}

export function useScene({ graph, drawn, layout, state, marked, selected }: Shown): Scene | null {
  const colours = useColours();
  const version = state?.version ?? -1;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a state that changed in place has another version
  const tones = useMemo(() => tonesOf(drawn, state), [drawn, state, version]);
  const fixed = useMemo(
    () => ({
      names: drawn.units.map((unit) => nameOf(graph, unit)),
      isFrame: drawn.units.map((unit) => unit.inside >= 0),
    }),
    [graph, drawn],
  );
  const markedUnits = useMemo(() => {
    const units = new Set<number>();
    for (const id of marked?.keys() ?? []) {
      units.add(unitOf(graph, drawn, id));
    }
    return units;
  }, [graph, drawn, marked]);
  const own = useMemo(() => (layout ? ownEdges(layout, frameOf(drawn, selected)) : []), [layout, drawn, selected]);
  return useMemo(() => {
    if (layout === null) {
      return null;
    }
    const flowing = flowingEdges(layout, tones);
    return { ...fixed, layout, tones, colours, selected, marked: markedUnits, flowing, own };
  }, [layout, own, fixed, tones, colours, selected, markedUnits]);
}

/** The members of an opened group have their edges together. */
function frameOf(drawn: Drawn, unit: number): number {
  const within = drawn.units[unit]?.within ?? -1;
  return within >= 0 ? within : unit;
}

/** The unit that shows a node, or -1. */
export function unitOf(graph: Graph, drawn: Drawn, nodeId: string | null): number {
  return nodeId === null ? -1 : (drawn.unitOf[graph.index.get(nodeId) ?? -1] ?? -1);
}
