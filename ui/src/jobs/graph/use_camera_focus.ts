// Where the view goes by itself: to the whole at first, to what is selected, to a group that was opened or closed.

import { type RefObject, useEffect, useRef } from "react";
import type { Graph } from "../model/graph";
import type { Drawn } from "../model/groups";
import type { Stage } from "./graph_renderer";
import { boxOf, type Scene } from "./scene";
import type { Size } from "./viewport";

/** Near enough to read. */
const READING_SCALE = 0.8;
/** Near enough to find a node that was selected before the graph was there. */
const FIRST_SCALE = 0.45;

interface Viewed {
  stage: Stage | null;
  scene: Scene | null;
  screen: Size;
  graph: Graph;
  drawn: Drawn;
  selected: number;
  /** The group that was opened or closed, until the view has gone to it. */
  turned: RefObject<string | null>;
}

/** Gives the way to go near a unit, and to what is selected next. */
export function useView({ stage, scene, screen, graph, drawn, selected, turned }: Viewed): (unit: number) => void {
  const shown = useRef<unknown[]>([]);
  const nearest = useRef(0);
  const layout = scene?.layout;
  useEffect(() => {
    if (!stage || !scene || screen.width === 0) {
      return;
    }
    stage.show(scene);
    const basis = [stage, graph, scene.layout.direction];
    if (basis.some((part, at) => part !== shown.current[at])) {
      shown.current = basis;
      stage.fit(false);
      nearest.current = FIRST_SCALE;
    }
  }, [stage, scene, screen, graph]);
  useEffect(() => {
    const id = turned.current;
    if (!stage || !layout || id === null) {
      return;
    }
    turned.current = null;
    const unit = drawn.units.findIndex((one) => one.id === id);
    if (unit >= 0) {
      stage.fit(true, boxOf(layout, unit));
    }
  }, [stage, layout, drawn, turned]);
  useEffect(() => {
    if (!stage || !layout || screen.width === 0) {
      return;
    }
    if (selected >= 0) {
      stage.reveal(selected, nearest.current);
      nearest.current = 0;
    } else if (nearest.current === FIRST_SCALE) {
      nearest.current = 0;
    }
  }, [stage, layout, selected, screen]);
  return (unit) => {
    stage?.reveal(unit, READING_SCALE);
    nearest.current = unit === selected ? 0 : READING_SCALE;
  };
}
