// Which units are shown as elements of the page: those near enough to be read, if they are not too many.

import type { Layout } from "./layout_types";
import { isIn } from "./scene";
import { type Camera, type Size, seen } from "./viewport";

const CARDS_SCALE_MIN = 0.26;
const CARDS_MAX = 120;
/** Cards are there already when they come into sight. */
export const CARDS_MARGIN = 100;
/** Below, small text can not be read. */
const FAR_SCALE = 0.62;

export interface InSight {
  /** Units; none where the canvas shows all. */
  cards: number[];
  isFar: boolean;
}

export function isFar(camera: Camera): boolean {
  return camera.scale < FAR_SCALE;
}

export function mayHaveCards(camera: Camera): boolean {
  return camera.scale >= CARDS_SCALE_MIN;
}

export function inSight(layout: Layout, camera: Camera, screen: Size): InSight {
  const box = seen(camera, screen, CARDS_MARGIN);
  const cards: number[] = [];
  if (mayHaveCards(camera)) {
    for (let unit = 0; unit < layout.x.length && cards.length <= CARDS_MAX; unit++) {
      if (isIn(layout, unit, box)) {
        cards.push(unit);
      }
    }
  }
  return { cards: cards.length > CARDS_MAX ? [] : cards, isFar: isFar(camera) };
}

export function isSameSight(one: InSight, other: InSight): boolean {
  return (
    one.isFar === other.isFar &&
    one.cards.length === other.cards.length &&
    one.cards.every((unit, place) => unit === other.cards[place])
  );
}
