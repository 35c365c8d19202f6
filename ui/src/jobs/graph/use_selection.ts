// Handles clicks and keys on the units of a graph: selects nodes and expands groups.

import { type KeyboardEvent, type MouseEvent, type RefObject, useState } from "react";
import type { UnitGraph } from "../model/groups";
import { type ArrowKey, nextUnit } from "./arrow_navigation";
import type { GraphRenderer } from "./graph_renderer";
import { handleKey } from "./keyboard";
import type { Layout } from "./layout_types";
import { unitAt } from "./scene";

/** Cards appear a few frames after the camera moves to them. */
const FOCUS_DELAY_MS = 320;

interface Selection {
  container: RefObject<HTMLElement | null>;
  renderer: GraphRenderer | null;
  unitGraph: UnitGraph;
  layout: Layout | null;
  /** The unit of the selected node, or -1. */
  selected: number;
  onSelect: ((nodeId: string | null) => void) | undefined;
  onExpand(group: string): void;
}

export function useSelection(selection: Selection) {
  const { container, renderer, unitGraph, layout, selected, onSelect, onExpand } = selection;
  // The keyboard cursor may be on a group, which cannot be selected.
  const [cursor, setCursor] = useState<string | null>(null);
  const current =
    selected >= 0 ? selected : unitGraph.units.findIndex((unit) => unit.id === cursor && unit.firstMember < 0);
  const select = (number: number, isActivated: boolean) => {
    const unit = unitGraph.units[number];
    setCursor(unit?.id ?? null);
    onSelect?.(unit?.kind === "node" ? unit.id : null);
    if (unit?.kind === "group" && unit.firstMember < 0 && isActivated) {
      onExpand(unit.id);
    }
  };
  const onClick = (event: MouseEvent) => {
    const target = event.target as HTMLElement;
    if (!layout || !renderer || target.closest("[data-control]")) {
      return;
    }
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const { x, y, scale } = renderer.camera.viewport;
    const clicked =
      cardUnit(target) ?? unitAt(layout, (event.clientX - left - x) / scale, (event.clientY - top - y) / scale);
    select(clicked, true);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!renderer || !layout || (event.target as HTMLElement).closest("[data-control]")) {
      return;
    }
    const move = (key: ArrowKey) => {
      const unit = nextUnit(layout, unitGraph, current, key);
      select(unit, false);
      renderer.reveal(unit);
      focusCard(container.current, unit);
    };
    const clear = () => {
      select(-1, false);
      container.current?.focus({ preventScroll: true });
    };
    const activate = () => select(cardUnit(event.target as HTMLElement) ?? Math.max(0, current), true);
    if (handleKey(event, { camera: renderer.camera, hasCursor: current >= 0, move, activate, clear })) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  return { current, onClick, onKeyDown };
}

/** The unit of the card that contains an element; null outside of cards. */
function cardUnit(element: HTMLElement): number | null {
  const card = element.closest<HTMLElement>("[data-unit]");
  return card ? Number(card.dataset.unit) : null;
}

function focusCard(container: HTMLElement | null, unit: number): void {
  setTimeout(() => {
    const card = container?.querySelector<HTMLElement>(`[data-unit="${unit}"]`);
    if (card && container?.contains(document.activeElement)) {
      card.focus({ preventScroll: true });
    }
  }, FOCUS_DELAY_MS);
}
