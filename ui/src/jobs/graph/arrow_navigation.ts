// Moves between units by arrow keys: along edges, and within a column.

import type { UnitGraph } from "../model/groups";
import type { Layout } from "./layout_types";
import { boxOf } from "./scene";

export type ArrowKey = "ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown";

const KEYS: Record<Layout["direction"], { forward: ArrowKey; back: ArrowKey; previous: ArrowKey }> = {
  right: { forward: "ArrowRight", back: "ArrowLeft", previous: "ArrowUp" },
  down: { forward: "ArrowDown", back: "ArrowUp", previous: "ArrowLeft" },
};

/** The unit that an arrow key leads to; the same unit at the edge of the graph. */
export function nextUnit(layout: Layout, unitGraph: UnitGraph, unit: number, key: ArrowKey): number {
  const { forward, back, previous } = KEYS[layout.direction];
  const current = unitGraph.units[unit];
  if (current === undefined) {
    return unit;
  }
  if (key === forward) {
    return nearest(layout, withMembersOf(unitGraph, current.children), unit);
  }
  if (key === back) {
    return nearest(layout, withMembersOf(unitGraph, current.parents), unit);
  }
  return neighborInColumn(layout, unit, key === previous ? -1 : 1);
}

/** Replace expanded groups by their members. */
function withMembersOf(unitGraph: UnitGraph, units: readonly number[]): number[] {
  return units.flatMap((unit) => {
    const { firstMember = -1, members = [] } = unitGraph.units[unit] ?? {};
    return firstMember < 0 ? [unit] : members.map((_, index) => firstMember + index);
  });
}

/** The center of a unit across the direction of the edges. */
function centerAcross(layout: Layout, unit: number): number {
  const { x, y, width, height } = boxOf(layout, unit);
  return layout.direction === "right" ? y + height / 2 : x + width / 2;
}

/** The center of a unit along the direction of the edges. */
function centerAlong(layout: Layout, unit: number): number {
  const { x, y, width, height } = boxOf(layout, unit);
  return layout.direction === "right" ? x + width / 2 : y + height / 2;
}

function nearest(layout: Layout, units: readonly number[], unit: number): number {
  const center = centerAcross(layout, unit);
  const distance = (other: number) => Math.abs(centerAcross(layout, other) - center);
  return units.reduce((best, other) => (best === unit || distance(other) < distance(best) ? other : best), unit);
}

function neighborInColumn(layout: Layout, unit: number, step: 1 | -1): number {
  const [along, across] = [centerAlong(layout, unit), centerAcross(layout, unit)];
  let best = unit;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (let other = 0; other < layout.x.length; other++) {
    const distance = (centerAcross(layout, other) - across) * step;
    if (distance > 0.5 && distance < bestDistance && Math.abs(centerAlong(layout, other) - along) < 1) {
      [best, bestDistance] = [other, distance];
    }
  }
  return best;
}
