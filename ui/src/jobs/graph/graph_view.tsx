// The graph of a workflow with the states of a job: the whole on a canvas, what is near as elements of the page.

import { useRef } from "react";
import type { Graph } from "../model/graph";
import type { JobState } from "../model/state";
import { Cards } from "./cards";
import { GraphControls } from "./graph_controls";
import { Spoken } from "./live_summary";
import { Minimap } from "./minimap";
import { useView } from "./use_camera_focus";
import { useGroups } from "./use_groups";
import { useLayout } from "./use_layout";
import { useStage } from "./use_renderer";
import { unitOf, useScene } from "./use_scene";
import { usePicking } from "./use_selection";

interface GraphViewProps {
  graph: Graph;
  /** Null shows the definition alone. It may be changed in place: its version is looked at with every render. */
  state: JobState | null;
  selected: string | null;
  onSelect?: (nodeId: string | null) => void;
  /** Nodes that stand out, each with a word why. */
  marked?: ReadonlyMap<string, string> | undefined;
  /** The moment that is shown, when it is not the present. */
  at?: string | null | undefined;
  label: string;
  /** A picture among other things: it always shows all of itself, and leaves the wheel to the page. */
  isStill?: boolean;
  className?: string;
}

const NARROW_PIXELS = 560;
const DOWN_UNITS_MAX = 60;
const MINIMAP_UNITS_MIN = 30;

export function GraphView(props: GraphViewProps) {
  const { graph, state, selected, onSelect, marked, at = null, label, isStill = false, className = "" } = props;
  const place = useRef<HTMLDivElement>(null);
  const { stage, screen, sight, canvas, layer } = useStage(place, isStill);
  const { drawn, turn, turned } = useGroups(graph, selected);
  const isNarrow = screen.width > 0 && screen.width < NARROW_PIXELS;
  const layout = useLayout(graph, drawn, isNarrow && drawn.units.length <= DOWN_UNITS_MAX ? "down" : "right");
  const selectedUnit = unitOf(graph, drawn, selected);
  const onOpen = (group: string) => turn(group, true);
  const picking = usePicking({ place, stage, drawn, layout, selected: selectedUnit, onSelect, onOpen });
  const scene = useScene({ graph, drawn, layout, state, marked, selected: picking.current });
  const approach = useView({ stage, scene, screen, graph, drawn, selected: selectedUnit, turned });
  const jump = (nodeId: string) => {
    approach(unitOf(graph, drawn, nodeId));
    onSelect?.(nodeId);
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is a part of a form
    <div
      ref={place}
      role="group"
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: its keys move what it shows
      tabIndex={0}
      onClick={picking.clicked}
      onKeyDown={picking.pressed}
      className={`relative h-full w-full select-none overflow-hidden bg-paper ${isStill ? "" : "min-h-64 touch-none"} ${className}`}
    >
      <canvas ref={canvas} className="absolute inset-0 size-full" />
      <div ref={layer} className="absolute left-0 top-0 size-0 origin-top-left">
        {scene && <Cards {...{ graph, drawn, scene, sight, state, marked, at }} />}
      </div>
      {!scene && <p className="absolute inset-0 grid place-items-center text-muted">Drawing the graph…</p>}
      {!isStill && (
        <GraphControls {...{ graph, state, stage, drawn }} onJump={jump} onClose={(group) => turn(group, false)} />
      )}
      {stage && scene && drawn.units.length > MINIMAP_UNITS_MIN && !isNarrow && <Minimap stage={stage} scene={scene} />}
      <Spoken state={state} />
    </div>
  );
}
