// What the pages about schedules read.

import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { at, get } from "../api/client";
import { queries } from "../api/queries";
import type { Page, Run, Schedule, Schemas } from "../api/shapes";
import { type Gathered, withNewest, withOlder } from "./gathered";

export type NextTimes = Schemas["NextSlotsView"];

// What the server gives at most.
const RUNS_PAGE = 100;
export const TIMES_MAX = 1_000;

export const scheduleQuery = (workflowId: string) =>
  queryOptions({
    queryKey: ["schedules", workflowId],
    queryFn: ({ signal }) => get<Schedule>(at("schedules", workflowId), {}, signal),
  });

export const nextTimesQuery = (workflowId: string) =>
  queryOptions({
    queryKey: ["schedules", workflowId, "next"],
    queryFn: ({ signal }) => get<NextTimes>(at("schedules", workflowId, "next"), { count: TIMES_MAX }, signal),
  });

export const runsOf = (workflowId: string | undefined, limit: number) =>
  queryOptions({
    queryKey: ["runs", "newest", workflowId ?? "", limit],
    queryFn: async ({ signal }) => (await get<Page<Run>>(at("runs"), { workflow_id: workflowId, limit }, signal)).items,
  });

export const gatheredQuery = (workflowId: string) =>
  queryOptions({
    queryKey: ["runs", "gathered", workflowId],
    queryFn: async ({ signal }) => {
      const page = await get<Page<Run>>(at("runs"), { workflow_id: workflowId, limit: RUNS_PAGE }, signal);
      return withNewest(queries.getQueryData<Gathered>(["runs", "gathered", workflowId]), page);
    },
  });

/** Reads one more page of older runs into what is gathered. */
export async function gatherOlder(client: QueryClient, workflowId: string, cursor: string): Promise<void> {
  const page = await get<Page<Run>>(at("runs"), { workflow_id: workflowId, limit: RUNS_PAGE, cursor });
  client.setQueryData(gatheredQuery(workflowId).queryKey, (known) => withOlder(known, cursor, page));
}
