// The graph of a workflow with the state of a job: all units on a canvas, readable ones as cards.

import { useRef } from "react";
import type { Graph } from "../model/graph";
import type { JobState } from "../model/state";
import { Cards } from "./cards";
import { GraphControls } from "./graph_controls";
import { LiveSummary } from "./live_summary";
import { Minimap } from "./minimap";
import { useCameraFocus } from "./use_camera_focus";
import { useGroups } from "./use_groups";
import { useLayout } from "./use_layout";
import { useRenderer } from "./use_renderer";
import { unitOf, useScene } from "./use_scene";
import { useSelection } from "./use_selection";

interface GraphViewProps {
  graph: Graph;
  /** Null shows the definition only. May be changed in place; its version is compared with every render. */
  state: JobState | null;
  selected: string | null;
  onSelect?: (nodeId: string | null) => void;
  /** Labels of highlighted nodes, by node id. */
  labels?: ReadonlyMap<string, string> | undefined;
  /** The time shown, if it is not the present. */
  at?: string | null | undefined;
  label: string;
  /** Always shows the whole graph and leaves the wheel to the page. */
  isStatic?: boolean;
  className?: string;
}

const NARROW_PIXELS = 560;
const VERTICAL_UNITS_MAX = 60;
const MINIMAP_UNITS_MIN = 30;

export function GraphView(props: GraphViewProps) {
  const { graph, state, selected, onSelect, labels, at = null, label, isStatic = false, className = "" } = props;
  const container = useRef<HTMLDivElement>(null);
  const { renderer, screen, cards, canvas, cardElement } = useRenderer(container, isStatic);
  const { unitGraph, setExpanded, toggledGroup } = useGroups(graph, selected);
  const isNarrow = screen.width > 0 && screen.width < NARROW_PIXELS;
  const isVertical = isNarrow && unitGraph.units.length <= VERTICAL_UNITS_MAX;
  const layout = useLayout(graph, unitGraph, isVertical ? "down" : "right");
  const selectedUnit = unitOf(graph, unitGraph, selected);
  const onExpand = (group: string) => setExpanded(group, true);
  const selection = useSelection({
    container,
    renderer,
    unitGraph,
    layout,
    selected: selectedUnit,
    onSelect,
    onExpand,
  });
  const scene = useScene({ graph, unitGraph, layout, state, labels, selected: selection.current });
  const focusUnit = useCameraFocus({
    renderer,
    scene,
    screen,
    graph,
    unitGraph,
    selected: selectedUnit,
    toggledGroup,
  });
  const goToNode = (nodeId: string) => {
    focusUnit(unitOf(graph, unitGraph, nodeId));
    onSelect?.(nodeId);
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is a part of a form
    <div
      ref={container}
      role="group"
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move the graph
      tabIndex={0}
      onClick={selection.onClick}
      onKeyDown={selection.onKeyDown}
      className={`relative h-full w-full select-none overflow-hidden bg-paper ${isStatic ? "" : "min-h-64 touch-none"} ${className}`}
    >
      <canvas ref={canvas} className="absolute inset-0 size-full" />
      <div ref={cardElement} className="absolute left-0 top-0 size-0 origin-top-left">
        {scene && <Cards {...{ graph, unitGraph, scene, cards, state, labels, at }} />}
      </div>
      {!scene && <p className="absolute inset-0 grid place-items-center text-muted">Loading graph…</p>}
      {!isStatic && (
        <GraphControls
          {...{ graph, state, unitGraph }}
          camera={renderer?.camera ?? null}
          onGoToNode={goToNode}
          onCollapse={(group) => setExpanded(group, false)}
        />
      )}
      {renderer && scene && unitGraph.units.length > MINIMAP_UNITS_MIN && !isNarrow && (
        <Minimap renderer={renderer} scene={scene} />
      )}
      <LiveSummary state={state} />
    </div>
  );
}
