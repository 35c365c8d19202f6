// Moves and zooms a stage by mouse, pen and fingers.

import type { Stage } from "./graph_renderer";

/** A press that moves less is a click. */
const CLICK_PIXELS = 4;
const WHEEL_LINE_PIXELS = 16;

/** Listens until the function that it returns is called. */
export function gestures(place: HTMLElement, stage: Stage): () => void {
  const held = new Map<number, { x: number; y: number }>();
  let moved = 0;

  const pressed = (event: PointerEvent) => {
    if (event.button === 0 && !(event.target as HTMLElement).closest("[data-control]")) {
      held.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (held.size === 1) {
        moved = 0;
      }
    }
  };
  const dragged = (event: PointerEvent) => {
    const before = held.get(event.pointerId);
    if (before === undefined) {
      return;
    }
    const now = { x: event.clientX, y: event.clientY };
    const distance = Math.hypot(now.x - before.x, now.y - before.y);
    if (moved + distance < CLICK_PIXELS && held.size === 1) {
      return;
    }
    if (!place.hasPointerCapture(event.pointerId)) {
      place.setPointerCapture(event.pointerId);
    }
    moved += distance;
    held.set(event.pointerId, now);
    const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
    if (other === undefined) {
      stage.push(now.x - before.x, now.y - before.y);
    } else {
      pinch(stage, place, before, now, other);
    }
  };
  const released = (event: PointerEvent) => {
    held.delete(event.pointerId);
  };
  // The end of a drag is no click on what lies under it.
  const clicked = (event: MouseEvent) => {
    if (moved >= CLICK_PIXELS && event.detail > 0) {
      event.stopPropagation();
      event.preventDefault();
    }
    moved = 0;
  };
  const wheeled = (event: WheelEvent) => {
    event.preventDefault();
    const { left, top } = place.getBoundingClientRect();
    const pixels = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? WHEEL_LINE_PIXELS : 1);
    // A pinch on a touch pad comes as a wheel with small steps.
    const speed = event.ctrlKey ? 0.01 : 0.0018;
    stage.zoom(Math.exp(-pixels * speed), event.clientX - left, event.clientY - top);
  };

  const stop = new AbortController();
  const { signal } = stop;
  place.addEventListener("pointerdown", pressed, { signal });
  place.addEventListener("pointermove", dragged, { signal });
  place.addEventListener("pointerup", released, { signal });
  place.addEventListener("pointercancel", released, { signal });
  place.addEventListener("click", clicked, { signal, capture: true });
  place.addEventListener("wheel", wheeled, { signal, passive: false });
  return () => stop.abort();
}

interface Point {
  x: number;
  y: number;
}

function pinch(stage: Stage, place: HTMLElement, before: Point, now: Point, other: Point): void {
  const { left, top } = place.getBoundingClientRect();
  const apart = Math.hypot(before.x - other.x, before.y - other.y);
  const nowApart = Math.hypot(now.x - other.x, now.y - other.y);
  stage.push((now.x - before.x) / 2, (now.y - before.y) / 2);
  stage.zoom(nowApart / Math.max(1, apart), (now.x + other.x) / 2 - left, (now.y + other.y) / 2 - top);
}
