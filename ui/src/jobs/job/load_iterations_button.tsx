// Reads the events of single iterations, which are many, once somebody wants them.

import { useState } from "react";
import { Button } from "../../components/controls";
import { ProblemBox } from "../../components/query_result";
import { count } from "../../lib/format";
import { ITEM_EVENTS_MAX, type LiveJob } from "./live_job";

/** Nothing for a job without loops, or whose items are read. */
export function ItemsButton({ live, children }: { live: LiveJob; children: string }) {
  const [problem, setProblem] = useState<unknown>(null);
  if (problem !== null) {
    return <ProblemBox error={problem} title="The items' events were not read" />;
  }
  if (live.itemsRead !== null) {
    return (
      <span role="status" className="text-xs text-muted">
        Reading the events of items: {count(live.itemsRead)}
      </span>
    );
  }
  if (live.hasItems || !live.graph.nodes.some((node) => node.isLoop)) {
    return null;
  }
  const about = live.hasEnded ? `Up to ${count(ITEM_EVENTS_MAX)} events` : "They can be read once the job has ended";
  return (
    <Button
      className="!h-7 !px-2 text-xs"
      disabled={!live.hasEnded}
      title={about}
      onClick={() => void live.readItems().catch(setProblem)}
    >
      {children}
    </Button>
  );
}
