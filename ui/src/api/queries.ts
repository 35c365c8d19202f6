// What the pages read, under one name each, so that every change can say what is out of date.

import { keepPreviousData, QueryClient, queryOptions } from "@tanstack/react-query";
import { at, get, Problem, type Query, text } from "./client";
import type { Health, Job, Node, Page, Workflow } from "./types";

/** Pages that show what goes on ask again so often while somebody looks; never in a tab that is hidden. */
export const LIVE_MS = 2_000;

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      // A server that restarts is waited for; what it refuses is not asked again.
      retry: (count, error) =>
        error instanceof Problem && error.status > 0 && error.status < 500 ? false : count < 60,
      retryDelay: (count) => Math.min(500 * 2 ** count, 4_000),
    },
  },
});

export const jobsQuery = (query: Query) =>
  queryOptions({
    queryKey: ["jobs", query],
    queryFn: ({ signal }) => get<Page<Job>>(at("jobs"), query, signal),
    placeholderData: keepPreviousData,
  });

export const jobQuery = (jobId: string) =>
  queryOptions({
    queryKey: ["job", jobId],
    queryFn: ({ signal }) => get<Job>(at("jobs", jobId), {}, signal),
  });

export const nodeQuery = (jobId: string, nodeId: string) =>
  queryOptions({
    queryKey: ["job", jobId, "node", nodeId],
    queryFn: ({ signal }) => get<Node>(at("jobs", jobId, "nodes", nodeId), {}, signal),
  });

export const workflowsQuery = (query: Query = {}) =>
  queryOptions({
    queryKey: ["workflows", query],
    queryFn: ({ signal }) => get<Page<Workflow>>(at("workflows"), query, signal),
    placeholderData: keepPreviousData,
  });

/** One version of a workflow; versions never change. */
export const versionQuery = (workflowId: string, version: number) =>
  queryOptions({
    queryKey: ["workflow", workflowId, "version", version],
    queryFn: ({ signal }) => get<Workflow>(at("workflows", workflowId, "versions", version), {}, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });

export const documentQuery = (workflowId: string, version: number) =>
  queryOptions({
    queryKey: ["workflow", workflowId, "document", version],
    queryFn: ({ signal }) => text(at("workflows", workflowId, "versions", version, "document"), signal),
    staleTime: Number.POSITIVE_INFINITY,
  });

export const healthQuery = () =>
  queryOptions({
    queryKey: ["health"],
    queryFn: ({ signal }) => get<Health>("/health", {}, signal),
  });
