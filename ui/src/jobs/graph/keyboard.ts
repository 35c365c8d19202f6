// Keyboard shortcuts of the graph.

import type { KeyboardEvent } from "react";
import type { ArrowKey } from "./arrow_navigation";
import type { Camera } from "./camera";

const ZOOM_FACTOR = 1.25;
const PAN_PIXELS = 80;
const PAN_KEYS: Record<string, [dx: number, dy: number]> = {
  ArrowLeft: [PAN_PIXELS, 0],
  ArrowRight: [-PAN_PIXELS, 0],
  ArrowUp: [0, PAN_PIXELS],
  ArrowDown: [0, -PAN_PIXELS],
};

interface KeyActions {
  camera: Camera;
  /** Whether a unit has the keyboard cursor. */
  hasCursor: boolean;
  move(key: ArrowKey): void;
  activate(): void;
  clear(): void;
}

/** Handle a key and return whether it has a meaning. Arrows move the cursor, or the camera without a cursor. */
export function handleKey(event: KeyboardEvent, { camera, hasCursor, move, activate, clear }: KeyActions): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return false;
  }
  const pan = PAN_KEYS[event.key];
  if (pan && hasCursor && !event.shiftKey) {
    move(event.key as ArrowKey);
    return true;
  }
  if (pan) {
    camera.pan(...pan);
    return true;
  }
  switch (event.key) {
    case "+":
    case "=":
      camera.zoom(ZOOM_FACTOR);
      return true;
    case "-":
      camera.zoom(1 / ZOOM_FACTOR);
      return true;
    case "0":
      camera.fit(true);
      return true;
    case "Enter":
      activate();
      return true;
    case "Escape":
      if (hasCursor) {
        clear();
      }
      return hasCursor;
    default:
      return false;
  }
}
