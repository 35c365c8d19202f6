// A paginated list of the API that refreshes itself.

import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { apiPath, get, type Query } from "../api/client";
import { LIVE_INTERVAL_MS } from "../api/queries";
import type { Page } from "../api/types";

const IDLE_INTERVAL_MS = 10_000;
// A refresh sends one request per loaded page.
const MS_PER_PAGE = 700;

/** `isLive` decides whether the items need a short refresh interval. */
export function usePagedQuery<T>(path: string[], query: Query, isLive: (items: T[]) => boolean, enabled = true) {
  const list = useInfiniteQuery({
    queryKey: [...path, "list", query],
    queryFn: ({ pageParam, signal }) => get<Page<T>>(apiPath(...path), { ...query, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => {
      const pages = state.data?.pages ?? [];
      const isBusy = isLive(pages.flatMap((page) => page.items));
      return Math.max(isBusy ? LIVE_INTERVAL_MS : IDLE_INTERVAL_MS, pages.length * MS_PER_PAGE);
    },
    enabled,
  });
  return { ...list, data: list.data?.pages.flatMap((page) => page.items) };
}
