// Queries of the schedule pages.

import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { apiPath, get } from "../api/client";
import { queryClient } from "../api/queries";
import type { Page, Run, Schedule, Schemas } from "../api/types";
import { appendOlder, mergeNewest, type RunHistory } from "./run_history";

export type NextTimes = Schemas["NextSlotsView"];

// The limits of the server.
const RUNS_PAGE = 100;
export const TIMES_MAX = 1_000;

export const scheduleQuery = (workflowId: string) =>
  queryOptions({
    queryKey: ["schedules", workflowId],
    queryFn: ({ signal }) => get<Schedule>(apiPath("schedules", workflowId), {}, signal),
  });

export const nextTimesQuery = (workflowId: string) =>
  queryOptions({
    queryKey: ["schedules", workflowId, "next"],
    queryFn: ({ signal }) => get<NextTimes>(apiPath("schedules", workflowId, "next"), { count: TIMES_MAX }, signal),
  });

export const runsOf = (workflowId: string | undefined, limit: number) =>
  queryOptions({
    queryKey: ["runs", "newest", workflowId ?? "", limit],
    queryFn: async ({ signal }) =>
      (await get<Page<Run>>(apiPath("runs"), { workflow_id: workflowId, limit }, signal)).items,
  });

export const runHistoryQuery = (workflowId: string) =>
  queryOptions({
    queryKey: ["runs", "history", workflowId],
    queryFn: async ({ signal }) => {
      const page = await get<Page<Run>>(apiPath("runs"), { workflow_id: workflowId, limit: RUNS_PAGE }, signal);
      return mergeNewest(queryClient.getQueryData<RunHistory>(["runs", "history", workflowId]), page);
    },
  });

/** Load another page of older runs into the history. */
export async function loadOlderRuns(client: QueryClient, workflowId: string, cursor: string): Promise<void> {
  const page = await get<Page<Run>>(apiPath("runs"), { workflow_id: workflowId, limit: RUNS_PAGE, cursor });
  client.setQueryData(runHistoryQuery(workflowId).queryKey, (history) => appendOlder(history, cursor, page));
}
