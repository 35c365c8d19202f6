// Queries shared by several pages, with the query keys that mutations invalidate.

import { keepPreviousData, QueryClient, queryOptions } from "@tanstack/react-query";
import { ApiError, apiPath, get, getText, type Query } from "./client";
import type { Health, Job, Node, Page, Workflow } from "./types";

/** Polling interval of pages that show running work. Hidden tabs do not poll. */
export const LIVE_INTERVAL_MS = 2_000;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      // Retry while the server restarts, but not after a client error.
      retry: (count, error) =>
        error instanceof ApiError && error.status > 0 && error.status < 500 ? false : count < 60,
      retryDelay: (count) => Math.min(500 * 2 ** count, 4_000),
    },
  },
});

export const jobsQuery = (query: Query) =>
  queryOptions({
    queryKey: ["jobs", query],
    queryFn: ({ signal }) => get<Page<Job>>(apiPath("jobs"), query, signal),
    placeholderData: keepPreviousData,
  });

export const jobQuery = (jobId: string) =>
  queryOptions({
    queryKey: ["job", jobId],
    queryFn: ({ signal }) => get<Job>(apiPath("jobs", jobId), {}, signal),
  });

export const nodeQuery = (jobId: string, nodeId: string) =>
  queryOptions({
    queryKey: ["job", jobId, "node", nodeId],
    queryFn: ({ signal }) => get<Node>(apiPath("jobs", jobId, "nodes", nodeId), {}, signal),
  });

export const workflowsQuery = (query: Query = {}) =>
  queryOptions({
    queryKey: ["workflows", query],
    queryFn: ({ signal }) => get<Page<Workflow>>(apiPath("workflows"), query, signal),
    placeholderData: keepPreviousData,
  });

/** One version of a workflow. Versions are immutable. */
export const versionQuery = (workflowId: string, version: number) =>
  queryOptions({
    queryKey: ["workflow", workflowId, "version", version],
    queryFn: ({ signal }) => get<Workflow>(apiPath("workflows", workflowId, "versions", version), {}, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });

export const documentQuery = (workflowId: string, version: number) =>
  queryOptions({
    queryKey: ["workflow", workflowId, "document", version],
    queryFn: ({ signal }) => getText(apiPath("workflows", workflowId, "versions", version, "document"), signal),
    staleTime: Number.POSITIVE_INFINITY,
  });

export const healthQuery = () =>
  queryOptions({
    queryKey: ["health"],
    queryFn: ({ signal }) => get<Health>("/health", {}, signal),
  });
