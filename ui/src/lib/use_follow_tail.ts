// Keeps a list that grows at its end, until its reader goes up.

import type { Virtualizer } from "@tanstack/react-virtual";
import { type RefObject, useEffect, useState } from "react";

const UP_KEYS = new Set(["ArrowUp", "PageUp", "Home"]);

/** Whether the end is followed, and the switch for it. */
export function useFollowing<B extends HTMLElement>(
  box: RefObject<B | null>,
  rows: Virtualizer<B, Element>,
  length: number,
  fromTheBeginning: boolean,
): [boolean, (isFollowing: boolean) => void] {
  const [isFollowing, setFollowing] = useState(fromTheBeginning);
  useEffect(() => {
    if (isFollowing && length > 0) {
      rows.scrollToIndex(length - 1, { align: "end" });
    }
  }, [isFollowing, length, rows]);
  useEffect(() => {
    const element = box.current;
    const wheeled = (event: WheelEvent) => event.deltaY < 0 && setFollowing(false);
    const pressed = (event: KeyboardEvent) => UP_KEYS.has(event.key) && setFollowing(false);
    const dragged = () => setFollowing(false);
    element?.addEventListener("wheel", wheeled, { passive: true });
    element?.addEventListener("keydown", pressed);
    element?.addEventListener("touchmove", dragged, { passive: true });
    return () => {
      element?.removeEventListener("wheel", wheeled);
      element?.removeEventListener("keydown", pressed);
      element?.removeEventListener("touchmove", dragged);
    };
  }, [box]);
  return [isFollowing, setFollowing];
}
