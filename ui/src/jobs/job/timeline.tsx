// The timeline of a job: a row for each node, its attempts as bars, its waits hatched.

import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useMemo, useRef, useState } from "react";
import { Button } from "../../components/controls";
import { FILLS, StatusIcon, toneOf } from "../../components/status";
import { useNow } from "../../components/time";
import { duration } from "../../lib/format";
import { useWidth } from "../../lib/use_width";
import { hasEnded } from "../job_status";
import { type Bar, type Gantt, type GanttRow, ganttOf } from "../model/gantt";
import type { Shown } from "./job_view_props";
import { type Tick, ticks } from "./timeline_ticks";

const ROW_PX = 28;
const AXIS_PX = 26;
const ZOOM_MAX = 256;
const BAR_LEAST_PX = 3;
const MARGIN_PX = 24;
const HATCHED = "bg-[repeating-linear-gradient(135deg,currentColor_0_1.5px,transparent_1.5px_4px)]";

interface TimelineProps extends Shown {
  selected: string | null;
  onSelect(nodeId: string): void;
}

export function Timeline({ live, state, at, version, selected, onSelect }: TimelineProps) {
  const isLive = at === undefined && !hasEnded(state.status);
  const clock = useNow(isLive ? 250 : null);
  // A moment of the past is its own now.
  const now = isLive ? Date.now() : Date.parse(state.at ?? "") || clock;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the state is changed in place, its version says when
  const gantt = useMemo(() => ganttOf(live.graph, state, now), [live, state, version, now]);
  return <Rows gantt={gantt} isLive={isLive} selected={selected} onSelect={onSelect} />;
}

interface RowsProps {
  gantt: Gantt;
  isLive: boolean;
  selected: string | null;
  onSelect(nodeId: string): void;
}

function Rows({ gantt, isLive, selected, onSelect }: RowsProps) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const [zoom, setZoom] = useState(1);
  const namePx = width < 640 ? 112 : 200;
  const trackPx = Math.max(120, width - namePx - MARGIN_PX) * zoom;
  const span = Math.max(1, gantt.to - gantt.from);
  const scale = trackPx / span;
  // At a large zoom most marks are out of sight, but a few thousand spans are no burden.
  const marks = ticks(span, trackPx);
  const rows = useVirtualizer({
    count: gantt.rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    scrollMargin: AXIS_PX,
  });
  const zoomBy = (factor: number) => setZoom((before) => Math.min(ZOOM_MAX, Math.max(1, before * factor)));
  const moved = (event: KeyboardEvent) => moveFocus(event, gantt.rows.length, (place) => rows.scrollToIndex(place));
  return (
    <div className="relative flex h-full flex-col rounded-lg border border-line bg-surface">
      <Tools zoom={zoom} onZoom={zoomBy} onFit={() => setZoom(1)} />
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the arrow keys move between the buttons within */}
      <div ref={box} className="min-h-0 flex-1 overflow-auto" onKeyDown={moved}>
        <div
          className="relative"
          style={{ width: namePx + trackPx + MARGIN_PX, height: rows.getTotalSize() + AXIS_PX }}
        >
          <Axis marks={marks} scale={scale} namePx={namePx} />
          <Grid marks={marks} scale={scale} namePx={namePx} />
          {isLive && (
            <div
              className="absolute bottom-0 w-px bg-accent"
              style={{ left: namePx + trackPx, top: AXIS_PX }}
              aria-hidden="true"
            />
          )}
          {rows.getVirtualItems().map((item) => {
            const row = gantt.rows[item.index];
            return row ? (
              <Row
                key={row.node}
                row={row}
                place={item.index}
                top={item.start}
                namePx={namePx}
                from={gantt.from}
                scale={scale}
                isSelected={row.id === selected}
                onSelect={onSelect}
              />
            ) : null;
          })}
        </div>
      </div>
    </div>
  );
}

function Tools({ zoom, onZoom, onFit }: { zoom: number; onZoom(factor: number): void; onFit(): void }) {
  return (
    <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line px-3 py-1">
      <ul className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-muted">
        <li className="inline-flex items-center gap-1.5">
          <span className="h-2.5 w-5 rounded-xs bg-running" aria-hidden="true" /> attempt
        </li>
        <li className="inline-flex items-center gap-1.5">
          <span className={`${HATCHED} h-2.5 w-5 rounded-xs text-ready`} aria-hidden="true" /> waits for a worker
        </li>
        <li className="inline-flex items-center gap-1.5">
          <span className={`${HATCHED} h-2.5 w-5 rounded-xs text-waiting`} aria-hidden="true" /> waits for its next
          attempt
        </li>
      </ul>
      <div className="flex items-center gap-1">
        <Button look="quiet" className="!h-7" aria-label="Zoom out" disabled={zoom <= 1} onClick={() => onZoom(0.5)}>
          −
        </Button>
        <Button
          look="quiet"
          className="!h-7"
          aria-label="Zoom in"
          disabled={zoom >= ZOOM_MAX}
          onClick={() => onZoom(2)}
        >
          +
        </Button>
        <Button look="quiet" className="!h-7" disabled={zoom === 1} onClick={onFit}>
          Fit
        </Button>
      </div>
    </div>
  );
}

interface MarksProps {
  marks: Tick[];
  scale: number;
  namePx: number;
}

function Axis({ marks, scale, namePx }: MarksProps) {
  return (
    <div className="sticky top-0 z-20 border-b border-line bg-surface" style={{ height: AXIS_PX }} aria-hidden="true">
      <div className="sticky left-0 z-10 h-full bg-surface" style={{ width: namePx }} />
      {marks.map((tick) => (
        <span
          key={tick.at}
          className="absolute top-0 h-full whitespace-nowrap border-l border-line pl-1 text-[0.6875rem] leading-6 text-muted tabular-nums"
          style={{ left: namePx + tick.at * scale }}
        >
          {tick.name}
        </span>
      ))}
    </div>
  );
}

/** The marks of the axis, drawn on through all rows. */
function Grid({ marks, scale, namePx }: MarksProps) {
  return marks.map((tick) => (
    <div
      key={tick.at}
      className="absolute bottom-0 w-px bg-line/50"
      style={{ left: namePx + tick.at * scale, top: AXIS_PX }}
      aria-hidden="true"
    />
  ));
}

interface RowProps {
  row: GanttRow;
  place: number;
  top: number;
  namePx: number;
  from: number;
  scale: number;
  isSelected: boolean;
  onSelect(nodeId: string): void;
}

function Row({ row, place, top, namePx, from, scale, isSelected, onSelect }: RowProps) {
  return (
    <button
      type="button"
      data-row={place}
      aria-label={rowText(row, from)}
      aria-pressed={isSelected}
      onClick={() => onSelect(row.id)}
      className={`absolute left-0 block w-full border-b border-line/40 text-left hover:bg-sunken/60 focus-visible:-outline-offset-2 ${isSelected ? "bg-accent/10" : ""}`}
      style={{ top, height: ROW_PX }}
    >
      <span
        className="sticky left-0 z-10 inline-flex h-full items-center gap-1.5 bg-surface px-2 text-xs"
        style={{ width: namePx }}
      >
        <StatusIcon status={row.status} size={14} />
        <span className={`truncate ${isSelected ? "font-semibold" : ""}`}>{row.id}</span>
      </span>
      {row.bars.map((bar) => (
        <BarShape key={`${bar.kind} ${bar.from}`} bar={bar} left={namePx + (bar.from - from) * scale} scale={scale} />
      ))}
      {row.markAt !== null && (
        <span
          className={`absolute top-2 size-2.5 rotate-45 rounded-xs ${FILLS[toneOf(row.status)]}`}
          style={{ left: namePx + (row.markAt - from) * scale - 4 }}
        />
      )}
    </button>
  );
}

function BarShape({ bar, left, scale }: { bar: Bar; left: number; scale: number }) {
  const width = Math.max(BAR_LEAST_PX, (bar.to - bar.from) * scale);
  const style = { left, width };
  if (bar.kind !== "running") {
    const tone = bar.kind === "queued" ? "text-ready" : "text-waiting";
    return <span className={`${HATCHED} absolute top-2 h-3 rounded-xs ${tone}`} style={style} />;
  }
  const failed = bar.outcome === "failed" || bar.outcome === "retrying";
  return (
    <span
      className={`absolute top-1.5 flex h-4 items-center overflow-hidden rounded-xs ${FILLS[toneOf(failed ? "failed" : (bar.outcome ?? "running"))]}`}
      style={style}
    >
      {bar.attempt > 1 && width > 22 && <span className="px-1 text-[0.625rem] text-surface">×{bar.attempt}</span>}
    </span>
  );
}

/** A row in words, for who does not see its bars. */
function rowText(row: GanttRow, from: number): string {
  if (row.bars.length === 0) {
    return `${row.id}: ${row.status}`;
  }
  const told = row.bars.map((bar) => {
    const took = duration((bar.to - bar.from) / 1000);
    const begun = duration((bar.from - from) / 1000);
    return bar.kind === "running"
      ? `attempt ${bar.attempt} after ${begun}, ${bar.outcome ?? "running"}, ${took}`
      : `${bar.kind === "queued" ? "waited for a worker" : "waited for its next attempt"} ${took}`;
  });
  return `${row.id}: ${row.status}; ${told.join("; ")}`;
}

/** Up and down go from row to row; the rows out of sight are drawn first. */
function moveFocus(event: KeyboardEvent, count: number, show: (place: number) => void): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const place = Number((event.target as HTMLElement).dataset.row ?? Number.NaN) + step;
  if (step === 0 || Number.isNaN(place) || place < 0 || place >= count) {
    return;
  }
  event.preventDefault();
  const box = event.currentTarget;
  show(place);
  requestAnimationFrame(() => box.querySelector<HTMLElement>(`[data-row="${place}"]`)?.focus());
}
