// Controls over the graph: node search, zoom buttons, and the legend.

import { type KeyboardEvent, type ReactNode, useId, useState } from "react";
import { Button } from "../../components/controls";
import { StatusIcon, statusText } from "../../components/status";
import { formatCount } from "../../lib/format";
import type { Graph } from "../model/graph";
import type { UnitGraph } from "../model/groups";
import type { JobState } from "../model/state";
import type { Camera } from "./camera";
import { countTones, TONES } from "./tones";
import { searchNodes, unitName } from "./unit_names";

const RESULTS_MAX = 8;

interface ControlsProps {
  graph: Graph;
  state: JobState | null;
  camera: Camera | null;
  unitGraph: UnitGraph;
  onGoToNode(nodeId: string): void;
  onCollapse(group: string): void;
}

export function GraphControls({ graph, state, camera, unitGraph, onGoToNode, onCollapse }: ControlsProps) {
  const expanded = unitGraph.units.filter((unit) => unit.firstMember >= 0);
  return (
    <>
      <div data-control className="absolute left-2.5 top-2.5 flex flex-col items-start gap-1.5">
        <NodeSearch graph={graph} onGoToNode={onGoToNode} />
        {expanded.map((unit) => (
          <Button key={unit.id} className="!h-7 !px-2 text-xs shadow-xs" onClick={() => onCollapse(unit.id)}>
            Collapse {unitName(graph, unit)}
          </Button>
        ))}
      </div>
      <div
        data-control
        className="absolute right-2.5 top-2.5 flex overflow-hidden rounded-md border border-line bg-surface shadow-xs"
      >
        <ZoomButton name="Zoom out" onClick={() => camera?.zoom(0.8)}>
          <path d="M4 8h8" />
        </ZoomButton>
        <ZoomButton name="Zoom in" onClick={() => camera?.zoom(1.25)}>
          <path d="M4 8h8M8 4v8" />
        </ZoomButton>
        <ZoomButton name="Fit graph" onClick={() => camera?.fit(true)}>
          <path d="M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3" />
        </ZoomButton>
      </div>
      {state && <Legend state={state} />}
    </>
  );
}

function ZoomButton({ name, onClick, children }: { name: string; onClick(): void; children: ReactNode }) {
  return (
    <button
      type="button"
      aria-label={name}
      title={name}
      onClick={onClick}
      className="grid size-8 place-items-center border-l border-line first:border-l-0 hover:bg-sunken focus-visible:-outline-offset-2"
    >
      <svg
        viewBox="0 0 16 16"
        width="16"
        height="16"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.6"
        aria-hidden="true"
      >
        {children}
      </svg>
    </button>
  );
}

/** A combobox of node ids; Enter goes to the active node. */
function NodeSearch({ graph, onGoToNode }: { graph: Graph; onGoToNode(nodeId: string): void }) {
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const id = useId();
  const results = searchNodes(graph, text, RESULTS_MAX);
  const goTo = (nodeId: string | undefined) => {
    if (nodeId !== undefined) {
      onGoToNode(nodeId);
      setText("");
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter") {
      goTo(results[active]);
    } else if (event.key === "Escape" && text !== "") {
      setText("");
      event.stopPropagation();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : results.length - 1;
      setActive(results.length === 0 ? 0 : (active + step) % results.length);
      event.preventDefault();
    }
  };
  const isOpen = text.trim() !== "";
  const hasResults = isOpen && results.length > 0;
  return (
    <div className="relative">
      <input
        type="text"
        role="combobox"
        data-search
        aria-label="Find node"
        aria-expanded={hasResults}
        aria-controls={hasResults ? id : undefined}
        aria-activedescendant={hasResults ? `${id}-${active}` : undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder="Find node"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setActive(0);
        }}
        onKeyDown={onKeyDown}
        className="h-8 w-40 rounded-md border border-line bg-surface px-2.5 text-sm shadow-xs sm:w-52"
      />
      {isOpen && <Results id={id} results={results} active={active} onPick={goTo} />}
    </div>
  );
}

interface ResultsProps {
  id: string;
  results: readonly string[];
  active: number;
  onPick(nodeId: string): void;
}

function Results({ id, results, active, onPick }: ResultsProps) {
  const popupClass = "absolute left-0 top-9 z-10 w-64 rounded-md border border-line bg-surface py-1 text-sm shadow-lg";
  if (results.length === 0) {
    return (
      <p role="status" className={`${popupClass} px-2.5 text-muted`}>
        No matching nodes
      </p>
    );
  }
  return (
    <div id={id} role="listbox" aria-label="Matching nodes" className={popupClass}>
      {results.map((nodeId, index) => (
        // biome-ignore lint/a11y/useFocusableInteractive lint/a11y/useKeyWithClickEvents: the input handles the keys
        <div
          key={nodeId}
          id={`${id}-${index}`}
          role="option"
          aria-selected={index === active}
          onClick={() => onPick(nodeId)}
          className={`cursor-pointer truncate px-2.5 py-1 ${index === active ? "bg-sunken" : "hover:bg-sunken"}`}
        >
          {nodeId}
        </div>
      ))}
    </div>
  );
}

/** The statuses with their icons and node counts. */
function Legend({ state }: { state: JobState }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details
      data-control
      onToggle={(event) => setOpen(event.currentTarget.open)}
      className="absolute bottom-2.5 left-2.5 max-w-[calc(100%-1.25rem)] rounded-md border border-line bg-surface text-xs shadow-xs"
    >
      <summary className="px-2.5 py-1.5 font-medium">Legend</summary>
      {isOpen && <LegendEntries counts={countTones(state)} />}
    </details>
  );
}

function LegendEntries({ counts }: { counts: readonly number[] }) {
  return (
    <ul className="grid grid-cols-2 gap-x-5 gap-y-1 px-2.5 pb-2">
      {TONES.map((tone, index) => (
        <li key={tone} className="flex items-center gap-1.5">
          <StatusIcon status={tone} size={14} />
          <span className="flex-1">{statusText(tone)}</span>
          <span className="tabular-nums text-muted">{formatCount(counts[index] ?? 0)}</span>
        </li>
      ))}
    </ul>
  );
}
