// Decides which units are shown as cards: those that are large enough to read, if there are not too many.

import type { Camera } from "./camera";
import type { Layout } from "./layout_types";
import { isInBox, type Scene } from "./scene";
import { type Box, contains, type Size, type Viewport, visibleBox } from "./viewport";

const CARDS_SCALE_MIN = 0.26;
const CARDS_MAX = 120;
/** Cards are created before they become visible. */
const MARGIN_PIXELS = 100;
/** Small text is not readable below this scale. */
const SMALL_TEXT_SCALE_MIN = 0.62;
/** The camera counts as still after this time without motion. */
const STILL_MS = 120;
/** Creating more cards at once would interrupt a motion. */
const CARDS_IN_MOTION_MAX = 30;

export interface VisibleCards {
  /** Empty where the canvas shows all units. */
  units: number[];
  /** Whether small text is hidden. */
  isZoomedOut: boolean;
}

export const NO_CARDS: VisibleCards = { units: [], isZoomedOut: false };

export class CardLayer {
  cards: VisibleCards = NO_CARDS;
  onChange: (cards: VisibleCards) => void = () => {};

  private readonly element: HTMLElement;
  private readonly onStill: () => void;
  /** The part of the drawing for which `cards` is complete. */
  private covered: Box | null = null;
  private stillTimer: ReturnType<typeof setTimeout> | undefined;

  /** `onStill` is called when cards were deferred until the camera is still. */
  constructor(element: HTMLElement, onStill: () => void) {
    this.element = element;
    this.onStill = onStill;
  }

  stop(): void {
    clearTimeout(this.stillTimer);
    this.onChange = () => {};
  }

  invalidate(): void {
    this.covered = null;
  }

  /** Move the layer with the camera and update its cards. `hasImage`: the canvas shows the units meanwhile. */
  update(scene: Scene, camera: Camera, hasImage: boolean): void {
    const { viewport, screen } = camera;
    const { x, y, scale } = viewport;
    this.element.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    if (this.isCurrent(viewport, screen)) {
      return;
    }
    const next = findVisibleCards(scene.layout, viewport, screen);
    const isMoving = camera.isAnimating || performance.now() - camera.movedAt < STILL_MS;
    const isCostly = this.cards.units.length === 0 && next.units.length > CARDS_IN_MOTION_MAX;
    if (hasImage && isMoving && isCostly) {
      clearTimeout(this.stillTimer);
      this.stillTimer = setTimeout(this.onStill, STILL_MS);
      return;
    }
    this.covered = visibleBox(viewport, screen, MARGIN_PIXELS);
    if (!isSame(next, this.cards)) {
      this.cards = next;
      this.onChange(next);
    }
  }

  private isCurrent(viewport: Viewport, screen: Size): boolean {
    const { units, isZoomedOut } = this.cards;
    const isSameKind = isZoomedOut === isSmall(viewport) && (units.length > 0 || !canHaveCards(viewport));
    return this.covered !== null && isSameKind && contains(this.covered, visibleBox(viewport, screen));
  }
}

export function findVisibleCards(layout: Layout, viewport: Viewport, screen: Size): VisibleCards {
  const box = visibleBox(viewport, screen, MARGIN_PIXELS);
  const units: number[] = [];
  if (canHaveCards(viewport)) {
    for (let unit = 0; unit < layout.x.length && units.length <= CARDS_MAX; unit++) {
      if (isInBox(layout, unit, box)) {
        units.push(unit);
      }
    }
  }
  return { units: units.length > CARDS_MAX ? [] : units, isZoomedOut: isSmall(viewport) };
}

function isSmall(viewport: Viewport): boolean {
  return viewport.scale < SMALL_TEXT_SCALE_MIN;
}

function canHaveCards(viewport: Viewport): boolean {
  return viewport.scale >= CARDS_SCALE_MIN;
}

function isSame(one: VisibleCards, other: VisibleCards): boolean {
  return (
    one.isZoomedOut === other.isZoomedOut &&
    one.units.length === other.units.length &&
    one.units.every((unit, index) => unit === other.units[index])
  );
}
