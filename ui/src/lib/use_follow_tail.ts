// Keeps a growing list scrolled to its end until the user scrolls up.

import type { Virtualizer } from "@tanstack/react-virtual";
import { type RefObject, useEffect, useState } from "react";

const UP_KEYS = new Set(["ArrowUp", "PageUp", "Home"]);

/** Return whether the end is followed, and a setter. */
export function useFollowTail<B extends HTMLElement>(
  box: RefObject<B | null>,
  rows: Virtualizer<B, Element>,
  length: number,
  initial: boolean,
): [boolean, (isFollowing: boolean) => void] {
  const [isFollowing, setFollowing] = useState(initial);
  useEffect(() => {
    if (isFollowing && length > 0) {
      rows.scrollToIndex(length - 1, { align: "end" });
    }
  }, [isFollowing, length, rows]);
  useEffect(() => {
    const element = box.current;
    const onWheel = (event: WheelEvent) => event.deltaY < 0 && setFollowing(false);
    const onKeyDown = (event: KeyboardEvent) => UP_KEYS.has(event.key) && setFollowing(false);
    const onTouchMove = () => setFollowing(false);
    element?.addEventListener("wheel", onWheel, { passive: true });
    element?.addEventListener("keydown", onKeyDown);
    element?.addEventListener("touchmove", onTouchMove, { passive: true });
    return () => {
      element?.removeEventListener("wheel", onWheel);
      element?.removeEventListener("keydown", onKeyDown);
      element?.removeEventListener("touchmove", onTouchMove);
    };
  }, [box]);
  return [isFollowing, setFollowing];
}
