// Queries of the operations page.

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { apiPath, get } from "../api/client";
import type { Activity, Queue } from "./types";

export const REFRESH_MS = 5_000;

export const queuesQuery = () =>
  queryOptions({
    queryKey: ["queues"],
    queryFn: async ({ signal }) => (await get<{ items: Queue[] }>(apiPath("queues"), {}, signal)).items,
    refetchInterval: REFRESH_MS,
  });

export const activityQuery = (minutes: number) =>
  queryOptions({
    queryKey: ["activity", minutes],
    queryFn: ({ signal }) => get<Activity>(apiPath("activity"), { minutes }, signal),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
