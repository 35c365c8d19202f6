// A job with its definition and live events.

import { type UseQueryResult, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { jobQuery } from "../../api/queries";
import type { Definition, Job } from "../../api/types";
import { useGraph } from "../graph/use_graph";
import { isFinal } from "../job_status";
import { useDefinition } from "../use_definition";
import { LiveJob } from "./live_job";

export interface JobWithEvents {
  job: UseQueryResult<Job>;
  definition: Definition | undefined;
  definitionError: unknown;
  /** Null until the graph is built. */
  live: LiveJob | null;
  /** Call after a retry or cancel to refresh the job and stream again. */
  onResumed(): void;
}

export function useJob(jobId: string): JobWithEvents {
  const queryClient = useQueryClient();
  const job = useQuery(jobQuery(jobId));
  const { definition, error: definitionError } = useDefinition(job.data);
  const created = job.data?.created_at;
  const graph = useGraph(definition);
  const live = useMemo(
    () => (graph && created ? new LiveJob({ job_id: jobId, created_at: created }, graph) : null),
    [jobId, graph, created],
  );
  const controller = useRef<AbortController>(null);
  useEffect(() => {
    const started = new AbortController();
    controller.current = started;
    void live?.run(started.signal);
    return () => started.abort();
  }, [live]);
  useVersion(live);
  const liveStatus = live?.history.latest.status;
  useEffect(() => {
    // Reload the job when it ends, for its result.
    const { queryKey } = jobQuery(jobId);
    const apiStatus = queryClient.getQueryData(queryKey)?.status;
    if (liveStatus && isFinal(liveStatus) && apiStatus && !isFinal(apiStatus)) {
      void queryClient.invalidateQueries({ queryKey, exact: true });
    }
  }, [liveStatus, jobId, queryClient]);
  const status = job.data?.status;
  useEffect(() => {
    // The job was resumed elsewhere.
    if (live?.isLoaded && live.connection === "ended" && status && !isFinal(status) && controller.current) {
      void live.resume(controller.current.signal);
    }
  }, [live, status]);
  const onResumed = () => {
    void queryClient.invalidateQueries({ queryKey: jobQuery(jobId).queryKey });
    if (live && controller.current) {
      void live.resume(controller.current.signal);
    }
  };
  return { job, definition, definitionError, live, onResumed };
}

/** Render again when the job changes. */
export function useVersion(live: LiveJob | null): number {
  return useSyncExternalStore(live?.notifier.subscribe ?? subscribeNothing, live?.notifier.version ?? versionZero);
}

const subscribeNothing = () => () => {};
const versionZero = () => 0;
