// Moves and zooms a camera by mouse, pen and touch.

import type { Camera } from "./camera";

/** A shorter movement is a click. */
const CLICK_PIXELS_MAX = 4;
const WHEEL_LINE_PIXELS = 16;
const WHEEL_SPEED = 0.0018;
const PINCH_SPEED = 0.01;

interface Point {
  x: number;
  y: number;
}

/** Attach the listeners; the returned function removes them. */
export function attachGestures(element: HTMLElement, camera: Camera): () => void {
  const pointers = new Map<number, Point>();
  let distanceMoved = 0;

  const onPointerDown = (event: PointerEvent) => {
    if (event.button === 0 && !(event.target as HTMLElement).closest("[data-control]")) {
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (pointers.size === 1) {
        distanceMoved = 0;
      }
    }
  };
  const onPointerMove = (event: PointerEvent) => {
    const before = pointers.get(event.pointerId);
    if (before === undefined) {
      return;
    }
    const now = { x: event.clientX, y: event.clientY };
    const distance = Math.hypot(now.x - before.x, now.y - before.y);
    if (distanceMoved + distance < CLICK_PIXELS_MAX && pointers.size === 1) {
      return;
    }
    if (!element.hasPointerCapture(event.pointerId)) {
      element.setPointerCapture(event.pointerId);
    }
    distanceMoved += distance;
    pointers.set(event.pointerId, now);
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other === undefined) {
      camera.pan(now.x - before.x, now.y - before.y);
    } else {
      pinch(camera, element, before, now, other);
    }
  };
  const onPointerUp = (event: PointerEvent) => {
    pointers.delete(event.pointerId);
  };
  // The end of a drag is not a click on the element below.
  const onClick = (event: MouseEvent) => {
    if (distanceMoved >= CLICK_PIXELS_MAX && event.detail > 0) {
      event.stopPropagation();
      event.preventDefault();
    }
    distanceMoved = 0;
  };
  const onWheel = (event: WheelEvent) => {
    event.preventDefault();
    const { left, top } = element.getBoundingClientRect();
    const pixels = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? WHEEL_LINE_PIXELS : 1);
    // A pinch on a touch pad is reported as a wheel event with small deltas.
    const speed = event.ctrlKey ? PINCH_SPEED : WHEEL_SPEED;
    camera.zoom(Math.exp(-pixels * speed), event.clientX - left, event.clientY - top);
  };

  const controller = new AbortController();
  const { signal } = controller;
  element.addEventListener("pointerdown", onPointerDown, { signal });
  element.addEventListener("pointermove", onPointerMove, { signal });
  element.addEventListener("pointerup", onPointerUp, { signal });
  element.addEventListener("pointercancel", onPointerUp, { signal });
  element.addEventListener("click", onClick, { signal, capture: true });
  element.addEventListener("wheel", onWheel, { signal, passive: false });
  return () => controller.abort();
}

function pinch(camera: Camera, element: HTMLElement, before: Point, now: Point, other: Point): void {
  const { left, top } = element.getBoundingClientRect();
  const distanceBefore = Math.hypot(before.x - other.x, before.y - other.y);
  const distanceNow = Math.hypot(now.x - other.x, now.y - other.y);
  camera.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
  const factor = distanceNow / Math.max(1, distanceBefore);
  camera.zoom(factor, (now.x + other.x) / 2 - left, (now.y + other.y) / 2 - top);
}
