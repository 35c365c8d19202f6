// From one unit to the next by arrow keys: along edges, and to those beside it.

import type { Drawn } from "../model/groups";
import type { Layout } from "./layout_types";
import { boxOf } from "./scene";

export type Way = "ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown";

const ALONG: Record<Layout["direction"], { on: Way; back: Way; before: Way }> = {
  right: { on: "ArrowRight", back: "ArrowLeft", before: "ArrowUp" },
  down: { on: "ArrowDown", back: "ArrowUp", before: "ArrowLeft" },
};

/** The unit that an arrow key leads to; the same one where there is no further. */
export function next(layout: Layout, drawn: Drawn, unit: number, way: Way): number {
  const { on, back, before } = ALONG[layout.direction];
  const here = drawn.units[unit];
  if (here === undefined) {
    return unit;
  }
  if (way === on || way === back) {
    return nearest(layout, shownOf(drawn, way === on ? here.children : here.parents), unit);
  }
  return beside(layout, unit, way === before ? -1 : 1);
}

/** In place of an opened group its members. */
function shownOf(drawn: Drawn, units: readonly number[]): number[] {
  return units.flatMap((unit) => {
    const { inside = -1, members = [] } = drawn.units[unit] ?? {};
    return inside < 0 ? [unit] : members.map((_, place) => inside + place);
  });
}

function acrossOf(layout: Layout, unit: number): number {
  const { x, y, width, height } = boxOf(layout, unit);
  return layout.direction === "right" ? y + height / 2 : x + width / 2;
}

function alongOf(layout: Layout, unit: number): number {
  const { x, y, width, height } = boxOf(layout, unit);
  return layout.direction === "right" ? x + width / 2 : y + height / 2;
}

function nearest(layout: Layout, units: readonly number[], unit: number): number {
  const here = acrossOf(layout, unit);
  const distance = (other: number) => Math.abs(acrossOf(layout, other) - here);
  return units.reduce((best, other) => (best === unit || distance(other) < distance(best) ? other : best), unit);
}

/** The next one in the same column. */
function beside(layout: Layout, unit: number, step: 1 | -1): number {
  const [along, across] = [alongOf(layout, unit), acrossOf(layout, unit)];
  let best = unit;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (let other = 0; other < layout.x.length; other++) {
    const distance = (acrossOf(layout, other) - across) * step;
    if (distance > 0.5 && distance < bestDistance && Math.abs(alongOf(layout, other) - along) < 1) {
      [best, bestDistance] = [other, distance];
    }
  }
  return best;
}
