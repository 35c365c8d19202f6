// What the keys do on a graph.

import type { KeyboardEvent } from "react";
import type { Way } from "./arrow_navigation";
import type { Stage } from "./graph_renderer";

const NEARER = 1.25;
const PUSH_PIXELS = 80;
const PUSHES: Record<string, [dx: number, dy: number]> = {
  ArrowLeft: [PUSH_PIXELS, 0],
  ArrowRight: [-PUSH_PIXELS, 0],
  ArrowUp: [0, PUSH_PIXELS],
  ArrowDown: [0, -PUSH_PIXELS],
};

interface Doings {
  stage: Stage;
  isOnUnit: boolean;
  walk(way: Way): void;
  enter(): void;
  leave(): void;
}

/** Whether the key meant something here. Arrows go from node to node, or move the view where there is none. */
export function onKey(event: KeyboardEvent, { stage, isOnUnit, walk, enter, leave }: Doings): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return false;
  }
  const push = PUSHES[event.key];
  if (push && isOnUnit && !event.shiftKey) {
    walk(event.key as Way);
    return true;
  }
  if (push) {
    stage.push(...push);
    return true;
  }
  switch (event.key) {
    case "+":
    case "=":
      stage.zoom(NEARER);
      return true;
    case "-":
      stage.zoom(1 / NEARER);
      return true;
    case "0":
      stage.fit(true);
      return true;
    case "Enter":
      enter();
      return true;
    case "Escape":
      if (isOnUnit) {
        leave();
      }
      return isOnUnit;
    default:
      return false;
  }
}
