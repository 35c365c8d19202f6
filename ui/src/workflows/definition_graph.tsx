// The graph of a definition, without any job in it.

import { lazy, Suspense, useMemo } from "react";
import type { Definition } from "../api/shapes";
import { graphOf } from "../jobs/model/graph";

// Loaded with the first graph: most tabs have none.
const GraphView = lazy(async () => ({ default: (await import("../jobs/graph/graph_view")).GraphView }));

interface DefinitionGraphProps {
  definition: Definition;
  label: string;
  selected: string | null;
  onSelect(nodeId: string | null): void;
}

export function DefinitionGraph({ definition, label, selected, onSelect }: DefinitionGraphProps) {
  const graph = useMemo(() => graphOf(definition), [definition]);
  return (
    <div className="h-[min(60dvh,40rem)]">
      <Suspense fallback={<p className="p-6 text-muted">Loading…</p>}>
        <GraphView graph={graph} state={null} selected={selected} onSelect={onSelect} label={label} />
      </Suspense>
    </div>
  );
}
