// What the page about operations reads.

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { at, get } from "../api/client";
import type { Activity, Queue } from "./types";

export const AGAIN_MS = 5_000;

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
