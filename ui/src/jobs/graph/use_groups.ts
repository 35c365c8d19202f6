// The groups of a graph and which of them are expanded. The group of the selected node is always expanded.

import { type RefObject, useEffect, useMemo, useRef, useState } from "react";
import type { Graph } from "../model/graph";
import { buildUnitGraph, findGroups, type UnitGraph } from "../model/groups";

interface Groups {
  unitGraph: UnitGraph;
  setExpanded(id: string, isExpanded: boolean): void;
  /** The group that was expanded or collapsed last. */
  toggledGroup: RefObject<string | null>;
}

export function useGroups(graph: Graph, selected: string | null): Groups {
  const groups = useMemo(() => findGroups(graph), [graph]);
  const [expanded, setExpandedGroups] = useState<ReadonlySet<string>>(new Set());
  const selectedGroup = useMemo(() => {
    const number = selected === null ? undefined : graph.index.get(selected);
    return number === undefined ? undefined : groups.find(({ members }) => members.includes(number))?.id;
  }, [graph, groups, selected]);
  const toggledGroup = useRef<string | null>(null);
  const setExpanded = (id: string, isExpanded: boolean) => {
    toggledGroup.current = id;
    const others = [...expanded].filter((other) => other !== id);
    setExpandedGroups(new Set(isExpanded ? [...others, id] : others));
  };
  useEffect(() => {
    if (selectedGroup !== undefined) {
      setExpandedGroups((before) => (before.has(selectedGroup) ? before : new Set([...before, selectedGroup])));
    }
  }, [selectedGroup]);
  const unitGraph = useMemo(() => buildUnitGraph(graph, groups, expanded), [graph, groups, expanded]);
  return { unitGraph, setExpanded, toggledGroup };
}
