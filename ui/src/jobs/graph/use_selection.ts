// What clicks and keys do with the units of a graph: select nodes, walk between them, open groups.

import { type KeyboardEvent, type MouseEvent, type RefObject, useState } from "react";
import type { Drawn } from "../model/groups";
import { next, type Way } from "./arrow_navigation";
import type { Stage } from "./graph_renderer";
import { onKey } from "./keyboard";
import type { Layout } from "./layout_types";
import { unitAt } from "./scene";

/** Cards come into sight a few frames after the view moves to them. */
const FOCUS_AFTER_MS = 320;

interface Picked {
  place: RefObject<HTMLElement | null>;
  stage: Stage | null;
  drawn: Drawn;
  layout: Layout | null;
  /** The unit of the selected node, or -1. */
  selected: number;
  onSelect: ((nodeId: string | null) => void) | undefined;
  onOpen(group: string): void;
}

export function usePicking({ place, stage, drawn, layout, selected, onSelect, onOpen }: Picked) {
  // The keys may stand on a group, which can not be selected.
  const [cursor, setCursor] = useState<string | null>(null);
  const current = selected >= 0 ? selected : drawn.units.findIndex((unit) => unit.id === cursor && unit.inside < 0);
  const pick = (number: number, isEntered: boolean) => {
    const unit = drawn.units[number];
    setCursor(unit?.id ?? null);
    onSelect?.(unit?.kind === "node" ? unit.id : null);
    if (unit?.kind === "group" && unit.inside < 0 && isEntered) {
      onOpen(unit.id);
    }
  };
  const clicked = (event: MouseEvent) => {
    const target = event.target as HTMLElement;
    if (!layout || !stage || target.closest("[data-control]")) {
      return;
    }
    const card = target.closest<HTMLElement>("[data-unit]");
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const { x, y, scale } = stage.camera;
    const under = () => unitAt(layout, (event.clientX - left - x) / scale, (event.clientY - top - y) / scale);
    pick(card ? Number(card.dataset.unit) : under(), true);
  };
  const pressed = (event: KeyboardEvent) => {
    if (!stage || !layout || (event.target as HTMLElement).closest("[data-control]")) {
      return;
    }
    const walk = (way: Way) => {
      const unit = next(layout, drawn, current, way);
      pick(unit, false);
      stage.reveal(unit);
      focusSoon(place.current, unit);
    };
    const leave = () => {
      pick(-1, false);
      place.current?.focus({ preventScroll: true });
    };
    const enter = () => pick(unitOfCard(event.target) ?? Math.max(0, current), true);
    if (onKey(event, { stage, isOnUnit: current >= 0, walk, enter, leave })) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  return { current, clicked, pressed };
}

/** The unit of the card that has the focus. */
function unitOfCard(target: EventTarget): number | null {
  const card = (target as HTMLElement).closest<HTMLElement>("[data-unit]");
  return card ? Number(card.dataset.unit) : null;
}

function focusSoon(place: HTMLElement | null, unit: number): void {
  setTimeout(() => {
    const card = place?.querySelector<HTMLElement>(`[data-unit="${unit}"]`);
    if (card && place?.contains(document.activeElement)) {
      card.focus({ preventScroll: true });
    }
  }, FOCUS_AFTER_MS);
}
