// The graph of a definition. It is built in a deferred render, so that the page stays responsive.

import { useDeferredValue, useMemo } from "react";
import type { Definition } from "../../api/types";
import { buildGraph, type Graph } from "../model/graph";

/** Null until the graph of the current definition is built. */
export function useGraph(definition: Definition | undefined): Graph | null {
  // Renders of a deferred value are interruptible between components.
  const deferred = useDeferredValue(definition ?? null, null);
  const graph = useMemo(() => deferred && buildGraph(deferred), [deferred]);
  return deferred === definition ? graph : null;
}
