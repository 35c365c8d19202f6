// Moves the camera: to the whole graph at first, to the selected unit, and to a group that was expanded or collapsed.

import { type RefObject, useEffect, useRef } from "react";
import type { Graph } from "../model/graph";
import type { UnitGraph } from "../model/groups";
import type { GraphRenderer } from "./graph_renderer";
import { boxOf, type Scene } from "./scene";
import type { Size } from "./viewport";

const READING_SCALE = 0.8;
/** The scale for a node that was selected before the graph was loaded. */
const INITIAL_SCALE = 0.45;

interface CameraFocus {
  renderer: GraphRenderer | null;
  scene: Scene | null;
  screen: Size;
  graph: Graph;
  unitGraph: UnitGraph;
  selected: number;
  /** The group that was expanded or collapsed, until the camera moved to it. */
  toggledGroup: RefObject<string | null>;
}

/** Return a function that moves the camera to a unit, at a scale for reading. */
export function useCameraFocus(focus: CameraFocus): (unit: number) => void {
  const { renderer, scene, screen, graph, unitGraph, selected, toggledGroup } = focus;
  const fittedFor = useRef<unknown[]>([]);
  const nextScaleMin = useRef(0);
  const layout = scene?.layout;
  useEffect(() => {
    if (!renderer || !scene || screen.width === 0) {
      return;
    }
    renderer.show(scene);
    const drawing = [renderer, graph, scene.layout.direction];
    if (drawing.some((part, index) => part !== fittedFor.current[index])) {
      fittedFor.current = drawing;
      renderer.camera.fit(false);
      nextScaleMin.current = INITIAL_SCALE;
    }
  }, [renderer, scene, screen, graph]);
  useEffect(() => {
    const groupId = toggledGroup.current;
    if (!renderer || !layout || groupId === null) {
      return;
    }
    toggledGroup.current = null;
    const unit = unitGraph.units.findIndex(({ id }) => id === groupId);
    if (unit >= 0) {
      renderer.camera.fit(true, boxOf(layout, unit));
    }
  }, [renderer, layout, unitGraph, toggledGroup]);
  useEffect(() => {
    if (!renderer || !layout || screen.width === 0) {
      return;
    }
    if (selected >= 0) {
      renderer.reveal(selected, nextScaleMin.current);
      nextScaleMin.current = 0;
    } else if (nextScaleMin.current === INITIAL_SCALE) {
      nextScaleMin.current = 0;
    }
  }, [renderer, layout, selected, screen]);
  return (unit) => {
    renderer?.reveal(unit, READING_SCALE);
    nextScaleMin.current = unit === selected ? 0 : READING_SCALE;
  };
}
