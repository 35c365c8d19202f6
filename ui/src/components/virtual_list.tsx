// A growing list of any length: renders the visible rows only and can follow the end.

import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useRef } from "react";
import { useFollowTail } from "../lib/use_follow_tail";
import { ScrollBox } from "./scroll_box";

const OVERSCAN = 20;

interface VirtualListProps<T> {
  label: string;
  items: readonly T[];
  keyOf(item: T): number;
  /** Estimated row height. */
  rowPx: number;
  /** Whether to follow the end initially. */
  isLive: boolean;
  listClass?: string;
  rowClass?: string;
  children(item: T, stopFollowing: () => void): ReactNode;
}

export function VirtualList<T>(props: VirtualListProps<T>) {
  const { label, items, keyOf, rowPx, isLive, listClass = "", rowClass = "", children } = props;
  const box = useRef<HTMLElement>(null);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: () => rowPx,
    getItemKey: (index) => (index < items.length ? keyOf(items[index] as T) : index),
    overscan: OVERSCAN,
  });
  const [isFollowing, setFollowing] = useFollowTail(box, rows, items.length, isLive);
  const stopFollowing = () => setFollowing(false);
  return (
    <>
      <ScrollBox ref={box} label={label} className="min-h-0 flex-1 overflow-auto">
        <ol className={`relative ${listClass}`} style={{ height: rows.getTotalSize() }}>
          {rows
            .getVirtualItems()
            .filter(({ index }) => index < items.length)
            .map((row) => (
              <li
                key={row.key}
                ref={rows.measureElement}
                data-index={row.index}
                className={`absolute left-0 top-0 w-full ${rowClass}`}
                style={{ transform: `translateY(${row.start}px)` }}
              >
                {children(items[row.index] as T, stopFollowing)}
              </li>
            ))}
        </ol>
      </ScrollBox>
      <label className="flex items-center gap-1.5 border-t border-line px-3 py-1 text-xs">
        <input
          type="checkbox"
          className="accent-accent"
          checked={isFollowing}
          onChange={(event) => setFollowing(event.target.checked)}
        />
        Follow newest
      </label>
    </>
  );
}
