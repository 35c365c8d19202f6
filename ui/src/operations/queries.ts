// What the page about operations reads.

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { at, get } from "../api/client";
import type { Activity, HealthTold, Queue } from "./shapes";

const AGAIN_MS = 5_000;

export const healthToldQuery = () =>
  queryOptions({
    queryKey: ["health"],
    queryFn: ({ signal }) => get<HealthTold>("/health", {}, signal),
    refetchInterval: AGAIN_MS,
  });

export const queuesQuery = () =>
  queryOptions({
    queryKey: ["queues"],
    queryFn: async ({ signal }) => (await get<{ items: Queue[] }>(at("queues"), {}, signal)).items,
    refetchInterval: AGAIN_MS,
  });

export const activityQuery = (minutes: number) =>
  queryOptions({
    queryKey: ["activity", minutes],
    queryFn: ({ signal }) => get<Activity>(at("activity"), { minutes }, signal),
    refetchInterval: AGAIN_MS,
    placeholderData: keepPreviousData,
  });
