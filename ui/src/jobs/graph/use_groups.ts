// Which groups of a graph are open: those that were opened here, and the one that the selected node is of.

import { type RefObject, useEffect, useMemo, useRef, useState } from "react";
import type { Graph } from "../model/graph";
import { type Drawn, drawnOf, groupsOf } from "../model/groups";

interface Groups {
  drawn: Drawn;
  turn(id: string, isOpened: boolean): void;
  /** The one that was turned last, for those who follow it. */
  turned: RefObject<string | null>;
}

export function useGroups(graph: Graph, selected: string | null): Groups {
  const groups = useMemo(() => groupsOf(graph), [graph]);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const needed = useMemo(() => {
    const number = selected === null ? undefined : graph.index.get(selected);
    return number === undefined ? undefined : groups.find(({ members }) => members.includes(number))?.id;
  }, [graph, groups, selected]);
  const turned = useRef<string | null>(null);
  const turn = (id: string, isOpened: boolean) => {
    turned.current = id;
    const others = [...opened].filter((other) => other !== id);
    setOpened(new Set(isOpened ? [...others, id] : others));
  };
  useEffect(() => {
    if (needed !== undefined) {
      setOpened((before) => (before.has(needed) ? before : new Set([...before, needed])));
    }
  }, [needed]);
  const drawn = useMemo(() => drawnOf(graph, groups, opened), [graph, groups, opened]);
  return { drawn, turn, turned };
}
