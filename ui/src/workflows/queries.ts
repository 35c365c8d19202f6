// Queries of the workflow pages.

import { queryOptions } from "@tanstack/react-query";
import { apiPath, get } from "../api/client";
import type { Page, Workflow } from "../api/types";
import type { Statistics } from "./types";

export const workflowQuery = (workflowId: string) =>
  queryOptions({
    queryKey: ["workflow", workflowId, "newest"],
    queryFn: ({ signal }) => get<Workflow>(apiPath("workflows", workflowId), {}, signal),
  });

export const versionsQuery = (workflowId: string) =>
  queryOptions({
    queryKey: ["workflow", workflowId, "versions"],
    queryFn: async ({ signal }) =>
      (await get<Page<Workflow>>(apiPath("workflows", workflowId, "versions"), {}, signal)).items,
  });

export const statisticsQuery = (workflowId: string, jobs: number, version: number | null) =>
  queryOptions({
    queryKey: ["workflow", workflowId, "statistics", jobs, version],
    queryFn: ({ signal }) => get<Statistics>(apiPath("workflows", workflowId, "statistics"), { jobs, version }, signal),
  });
