// A list of the API, page after page, that keeps up with what goes on in it.

import { useInfiniteQuery } from "@tanstack/react-query";
import { at, get, type Query } from "../api/client";
import { LIVE_MS } from "../api/queries";
import type { Page } from "../api/types";

const IDLE_MS = 10_000;
// Every page that is shown is one request.
const PAGE_MS = 700;

/** `isLive` says of the items whether they are worth asking again soon. */
export function usePaged<T>(path: string[], query: Query, isLive: (items: T[]) => boolean, enabled = true) {
  const list = useInfiniteQuery({
    queryKey: [...path, "list", query],
    queryFn: ({ pageParam, signal }) => get<Page<T>>(at(...path), { ...query, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: (before) => before,
    refetchInterval: ({ state }) => {
      const pages = state.data?.pages ?? [];
      const often = isLive(pages.flatMap((page) => page.items));
      return Math.max(often ? LIVE_MS : IDLE_MS, pages.length * PAGE_MS);
    },
    enabled,
  });
  return { ...list, data: list.data?.pages.flatMap((page) => page.items) };
}
