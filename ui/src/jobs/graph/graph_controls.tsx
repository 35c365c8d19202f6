// What lies over the graph: the search for a node, the zoom, and what the marks mean.

import { type KeyboardEvent, type ReactNode, useId, useState } from "react";
import { Button } from "../../components/controls";
import { StatusIcon } from "../../components/status";
import { count } from "../../lib/format";
import type { Graph } from "../model/graph";
import type { Drawn } from "../model/groups";
import type { JobState } from "../model/state";
import type { Stage } from "./graph_renderer";
import { countsOf, TONES } from "./tones";
import { found, nameOf } from "./unit_names";

const RESULTS_MAX = 8;

interface ControlsProps {
  graph: Graph;
  state: JobState | null;
  stage: Stage | null;
  drawn: Drawn;
  onJump(nodeId: string): void;
  onClose(group: string): void;
}

export function GraphControls({ graph, state, stage, drawn, onJump, onClose }: ControlsProps) {
  const opened = drawn.units.filter((unit) => unit.inside >= 0);
  return (
    <>
      <div data-control className="absolute left-2.5 top-2.5 flex flex-col items-start gap-1.5">
        <Search graph={graph} onJump={onJump} />
        {opened.map((unit) => (
          <Button key={unit.id} className="!h-7 !px-2 text-xs shadow-xs" onClick={() => onClose(unit.id)}>
            Close {nameOf(graph, unit)}
          </Button>
        ))}
      </div>
      <div
        data-control
        className="absolute right-2.5 top-2.5 flex overflow-hidden rounded-md border border-line bg-surface shadow-xs"
      >
        <Zoom name="Zoom out" onClick={() => stage?.zoom(0.8)}>
          <path d="M4 8h8" />
        </Zoom>
        <Zoom name="Zoom in" onClick={() => stage?.zoom(1.25)}>
          <path d="M4 8h8M8 4v8" />
        </Zoom>
        <Zoom name="Show the whole graph" onClick={() => stage?.fit(true)}>
          <path d="M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3" />
        </Zoom>
      </div>
      {state && <Legend state={state} />}
    </>
  );
}

function Zoom({ name, onClick, children }: { name: string; onClick(): void; children: ReactNode }) {
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

/** Type to find a node; Enter goes to it. */
function Search({ graph, onJump }: { graph: Graph; onJump(nodeId: string): void }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const id = useId();
  const results = found(graph, text, RESULTS_MAX);
  const go = (nodeId: string | undefined) => {
    if (nodeId !== undefined) {
      onJump(nodeId);
      setText("");
    }
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Enter") {
      go(results[chosen]);
    } else if (event.key === "Escape" && text !== "") {
      setText("");
      event.stopPropagation();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : results.length - 1;
      setChosen(results.length === 0 ? 0 : (chosen + step) % results.length);
      event.preventDefault();
    }
  };
  const isOpen = text.trim() !== "";
  const isListed = isOpen && results.length > 0;
  return (
    <div className="relative">
      <input
        type="text"
        role="combobox"
        data-search
        aria-label="Find a node"
        aria-expanded={isListed}
        aria-controls={isListed ? id : undefined}
        aria-activedescendant={isListed ? `${id}-${chosen}` : undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder="Find a node"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setChosen(0);
        }}
        onKeyDown={pressed}
        className="h-8 w-40 rounded-md border border-line bg-surface px-2.5 text-sm shadow-xs sm:w-52"
      />
      {isOpen && <Results id={id} results={results} chosen={chosen} onPick={go} />}
    </div>
  );
}

interface ResultsProps {
  id: string;
  results: readonly string[];
  chosen: number;
  onPick(nodeId: string): void;
}

function Results({ id, results, chosen, onPick }: ResultsProps) {
  const look = "absolute left-0 top-9 z-10 w-64 rounded-md border border-line bg-surface py-1 text-sm shadow-lg";
  if (results.length === 0) {
    return (
      <p role="status" className={`${look} px-2.5 text-muted`}>
        No node has this in its name.
      </p>
    );
  }
  return (
    <div id={id} role="listbox" aria-label="Nodes found" className={look}>
      {results.map((nodeId, place) => (
        // biome-ignore lint/a11y/useFocusableInteractive lint/a11y/useKeyWithClickEvents: its keys are those of the field
        <div
          key={nodeId}
          id={`${id}-${place}`}
          role="option"
          aria-selected={place === chosen}
          onClick={() => onPick(nodeId)}
          className={`cursor-pointer truncate px-2.5 py-1 ${place === chosen ? "bg-sunken" : "hover:bg-sunken"}`}
        >
          {nodeId}
        </div>
      ))}
    </div>
  );
}

/** What the marks mean, and how many nodes have each. */
function Legend({ state }: { state: JobState }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details
      data-control
      onToggle={(event) => setOpen(event.currentTarget.open)}
      className="absolute bottom-2.5 left-2.5 max-w-[calc(100%-1.25rem)] rounded-md border border-line bg-surface text-xs shadow-xs"
    >
      <summary className="px-2.5 py-1.5 font-medium">States</summary>
      {isOpen && <States counts={countsOf(state)} />}
    </details>
  );
}

function States({ counts }: { counts: readonly number[] }) {
  return (
    <ul className="grid grid-cols-2 gap-x-5 gap-y-1 px-2.5 pb-2">
      {TONES.map((tone, number) => (
        <li key={tone} className="flex items-center gap-1.5">
          <StatusIcon status={tone} size={14} />
          <span className="flex-1">{tone}</span>
          <span className="tabular-nums text-muted">{count(counts[number] ?? 0)}</span>
        </li>
      ))}
    </ul>
  );
}
