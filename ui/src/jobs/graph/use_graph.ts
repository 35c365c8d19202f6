// The graph of a definition. It and all that is drawn of it first are worked out piece by piece: the page stays free.

import { useDeferredValue, useMemo } from "react";
import type { Definition } from "../../api/types";
import { type Graph, graphOf } from "../model/graph";

/** Null until the graph of this very definition is there. */
export function useGraph(definition: Definition | undefined): Graph | null {
  // What follows from a deferred value is rendered a component at a time, and other things may happen in between.
  const deferred = useDeferredValue(definition ?? null, null);
  const graph = useMemo(() => deferred && graphOf(deferred), [deferred]);
  return deferred === definition ? graph : null;
}
