// The state of a job as the API returns it, without reading its events.

import type { Job, Json, Node, NodeStatus } from "../../api/types";
import type { Graph } from "./graph";
import { initialState, type JobState, PENDING_NODE } from "./state";

export function stateFromApi(graph: Graph, job: Job, nodes: readonly Node[]): JobState {
  const byId = new Map(nodes.map((node) => [node.node_id, node]));
  return {
    ...initialState(graph, job),
    status: job.status,
    startedAt: job.started_at,
    endedAt: job.completed_at,
    error: job.error,
    failures: job.failures,
    nodes: graph.nodes.map(({ id }) => {
      const node = byId.get(id);
      if (node === undefined) {
        return PENDING_NODE;
      }
      return {
        ...PENDING_NODE,
        status: node.status as NodeStatus,
        attempt: node.attempt,
        startedAt: node.started_at,
        endedAt: node.completed_at,
        error: node.error,
        loop: node.loop,
        exhaustedPages: exhaustedPages(node.meta),
        exhaustedIterations: exhaustedIterations(node.meta),
      };
    }),
  };
}

/** The number of pages that a node or an iteration read, by its metadata, if there were more than allowed. */
export function exhaustedPages(meta: Json): number | null {
  const retry = objectOf(objectOf(meta)["retry"]);
  return retry["is_exhausted"] ? Number(retry["pages"] ?? 0) : null;
}

function exhaustedIterations(meta: Json): number {
  return Number(objectOf(meta)["exhausted"] ?? 0);
}

function objectOf(value: Json | undefined): { [key: string]: Json } {
  return value === null || typeof value !== "object" || Array.isArray(value) ? {} : value;
}
