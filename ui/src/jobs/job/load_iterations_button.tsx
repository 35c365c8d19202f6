// A button that loads the events of iterations, which may be many.

import { useState } from "react";
import { Button } from "../../components/controls";
import { ErrorAlert } from "../../components/query_result";
import { formatCount } from "../../lib/format";
import { ITERATION_EVENTS_MAX, type LiveJob } from "./live_job";

/** Renders nothing for jobs without loops and after the events are loaded. */
export function LoadIterationsButton({ live, children }: { live: LiveJob; children: string }) {
  const [error, setError] = useState<unknown>(null);
  if (error !== null) {
    return <ErrorAlert error={error} title="Loading iteration events failed" />;
  }
  if (live.iterationEventsRead !== null) {
    return (
      <span role="status" className="text-xs text-muted">
        Loading iteration events: {formatCount(live.iterationEventsRead)}
      </span>
    );
  }
  if (live.hasIterationEvents || !live.graph.nodes.some((node) => node.isLoop)) {
    return null;
  }
  const title = live.isFinal ? `Up to ${formatCount(ITERATION_EVENTS_MAX)} events` : "Available when the job ends";
  return (
    <Button
      className="!h-7 !px-2 text-xs"
      disabled={!live.isFinal}
      title={title}
      onClick={() => void live.readIterationEvents().catch(setError)}
    >
      {children}
    </Button>
  );
}
