// What the pages about workflows read.

import { queryOptions } from "@tanstack/react-query";
import { at, get } from "../api/client";
import type { Page, Workflow } from "../api/types";
import type { Statistics } from "./types";

export const workflowQuery = (workflowId: string) =>
  queryOptions({
    queryKey: ["workflow", workflowId, "newest"],
    queryFn: ({ signal }) => get<Workflow>(at("workflows", workflowId), {}, signal),
  });

export const versionsQuery = (workflowId: string) =>
  queryOptions({
    queryKey: ["workflow", workflowId, "versions"],
    queryFn: async ({ signal }) =>
      (await get<Page<Workflow>>(at("workflows", workflowId, "versions"), {}, signal)).items,
  });

export const statisticsQuery = (workflowId: string, jobs: number, version: number | null) =>
  queryOptions({
    queryKey: ["workflow", workflowId, "statistics", jobs, version],
    queryFn: ({ signal }) => get<Statistics>(at("workflows", workflowId, "statistics"), { jobs, version }, signal),
  });
