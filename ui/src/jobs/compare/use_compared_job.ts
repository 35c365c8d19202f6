// One side of a comparison, as the API returns it.

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { apiPath, get } from "../../api/client";
import { jobQuery, LIVE_INTERVAL_MS } from "../../api/queries";
import type { Job, Node, Page } from "../../api/types";
import { useGraph } from "../graph/use_graph";
import { isFinal } from "../job_status";
import { stateFromApi } from "../model/api_state";
import type { ComparedJob } from "../model/compare";
import { useDefinition } from "../use_definition";

const PAGE_SIZE = 1_000;

interface ComparedJobQuery {
  job: Job | undefined;
  /** Undefined until the job, its definition and its nodes are loaded. */
  compared: ComparedJob | undefined;
  error: unknown;
}

export function useComparedJob(jobId: string): ComparedJobQuery {
  const job = useQuery({
    ...jobQuery(jobId),
    refetchInterval: ({ state }) => (state.data && !isFinal(state.data.status) ? LIVE_INTERVAL_MS : false),
  });
  const status = job.data?.status;
  const isLoaded = job.data !== undefined;
  const { definition, error: definitionError } = useDefinition(job.data);
  const nodes = useQuery({
    // Loaded again when the job ends.
    queryKey: ["job", jobId, "nodes", status],
    queryFn: ({ signal }) => getNodes(jobId, signal),
    enabled: isLoaded,
    refetchInterval: status && !isFinal(status) ? LIVE_INTERVAL_MS : false,
  });
  const graph = useGraph(definition);
  const compared = useMemo((): ComparedJob | undefined => {
    if (!graph || !job.data || !nodes.data) {
      return undefined;
    }
    const outputs = new Map(nodes.data.map((node) => [node.node_id, node.output]));
    return { jobId, state: stateFromApi(graph, job.data, nodes.data), outputs };
  }, [jobId, graph, job.data, nodes.data]);
  return { job: job.data, compared, error: job.error ?? definitionError ?? nodes.error };
}

async function getNodes(jobId: string, signal: AbortSignal): Promise<Node[]> {
  const nodes: Node[] = [];
  let cursor: string | null = null;
  do {
    const query: { limit: number; cursor: string | null } = { limit: PAGE_SIZE, cursor };
    const page: Page<Node> = await get<Page<Node>>(apiPath("jobs", jobId, "nodes"), query, signal);
    nodes.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return nodes;
}
