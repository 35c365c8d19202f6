// What a page about a job stands on: the job, its definition, and its events as they come.

import { type UseQueryResult, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { jobQuery, versionQuery } from "../../api/queries";
import type { Job, Workflow } from "../../api/types";
import { useGraph } from "../graph/use_graph";
import { hasEnded } from "../job_status";
import { LiveJob } from "./live_job";

export interface UsedJob {
  job: UseQueryResult<Job>;
  workflow: UseQueryResult<Workflow>;
  /** Null until the graph of its definition is there. */
  live: LiveJob | null;
  /** After an order that lets the job go on: looks again. */
  goOn(): void;
}

export function useJob(jobId: string): UsedJob {
  const queries = useQueryClient();
  const job = useQuery(jobQuery(jobId));
  const { workflow_id: workflowId = "", version = 0 } = job.data ?? {};
  const workflow = useQuery({ ...versionQuery(workflowId, version), enabled: job.data !== undefined });
  const created = job.data?.created_at;
  const graph = useGraph(workflow.data?.definition);
  const live = useMemo(
    () => (graph && created ? new LiveJob({ job_id: jobId, created_at: created }, graph) : null),
    [jobId, graph, created],
  );
  const following = useRef<AbortController>(null);
  useEffect(() => {
    const controller = new AbortController();
    following.current = controller;
    void live?.run(controller.signal);
    return () => controller.abort();
  }, [live]);
  useVersion(live);
  const told = live?.history.latest.status;
  useEffect(() => {
    // The result comes with the job once it has ended.
    const { queryKey } = jobQuery(jobId);
    const known = queries.getQueryData(queryKey)?.status;
    if (told && hasEnded(told) && known && !hasEnded(known)) {
      void queries.invalidateQueries({ queryKey, exact: true });
    }
  }, [told, jobId, queries]);
  const status = job.data?.status;
  useEffect(() => {
    // Somebody else let it go on.
    if (live?.isLoaded && live.connection === "ended" && status && !hasEnded(status) && following.current) {
      void live.wake(following.current.signal);
    }
  }, [live, status]);
  const goOn = () => {
    void queries.invalidateQueries({ queryKey: jobQuery(jobId).queryKey });
    if (live && following.current) {
      void live.wake(following.current.signal);
    }
  };
  return { job, workflow, live, goOn };
}

/** Draws again when the job has changed. */
export function useVersion(live: LiveJob | null): number {
  return useSyncExternalStore(live?.batched.subscribe ?? never, live?.batched.version ?? zero);
}

const never = () => () => {};
const zero = () => 0;
