// The graph of a definition without a job.

import { lazy, Suspense } from "react";
import type { Definition } from "../api/types";
import { useGraph } from "../jobs/graph/use_graph";

// Loaded on demand, since most tabs have no graph.
const GraphView = lazy(async () => ({ default: (await import("../jobs/graph/graph_view")).GraphView }));

interface DefinitionGraphProps {
  definition: Definition;
  label: string;
  selected: string | null;
  onSelect(nodeId: string | null): void;
}

export function DefinitionGraph({ definition, label, selected, onSelect }: DefinitionGraphProps) {
  const graph = useGraph(definition);
  return (
    <div className="h-[min(60dvh,40rem)]">
      <Suspense fallback={<p className="p-6 text-muted">Loading…</p>}>
        {graph && <GraphView graph={graph} state={null} selected={selected} onSelect={onSelect} label={label} />}
      </Suspense>
    </div>
  );
}
