// The timeline of a job: a row per node with bars for attempts and hatched bars for waits.

import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useMemo, useRef, useState } from "react";
import { Button } from "../../components/controls";
import { FILL_CLASSES, StatusIcon, toneOf } from "../../components/status";
import { useNow } from "../../components/time";
import { formatDuration } from "../../lib/format";
import { useWidth } from "../../lib/use_width";
import { isFinal } from "../job_status";
import { type Bar, buildGantt, type Gantt, type GanttRow } from "../model/gantt";
import { outcomeStatus, outcomeText } from "../outcomes";
import type { JobViewProps } from "./job_view_props";
import { type Tick, ticks } from "./timeline_ticks";

const ROW_PX = 28;
const AXIS_PX = 26;
const ZOOM_MAX = 256;
const BAR_WIDTH_MIN_PX = 3;
const MARGIN_PX = 24;
const HATCHED = "bg-[repeating-linear-gradient(135deg,currentColor_0_1.5px,transparent_1.5px_4px)]";

interface TimelineProps extends JobViewProps {
  selected: string | null;
  onSelect(nodeId: string): void;
}

export function Timeline({ live, state, at, version, selected, onSelect }: TimelineProps) {
  const isLive = at === undefined && !isFinal(state.status);
  const currentTime = useNow(isLive ? 250 : null);
  // In the past, the time of the event is now.
  const now = isLive ? Date.now() : Date.parse(state.at ?? "") || currentTime;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the state is changed in place and has a version
  const gantt = useMemo(() => buildGantt(live.graph, state, now), [live, state, version, now]);
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
  // At a large zoom most ticks are invisible, but a few thousand elements are acceptable.
  const axisTicks = ticks(span, trackPx);
  const rows = useVirtualizer({
    count: gantt.rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    scrollMargin: AXIS_PX,
  });
  const zoomBy = (factor: number) => setZoom((before) => Math.min(ZOOM_MAX, Math.max(1, before * factor)));
  const onKeyDown = (event: KeyboardEvent) => moveFocus(event, gantt.rows.length, (index) => rows.scrollToIndex(index));
  return (
    <div className="relative flex h-full flex-col rounded-lg border border-line bg-surface">
      <Toolbar zoom={zoom} onZoom={zoomBy} onFit={() => setZoom(1)} />
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the arrow keys move between the buttons within */}
      <div ref={box} className="min-h-0 flex-1 overflow-auto" onKeyDown={onKeyDown}>
        <div
          className="relative"
          style={{ width: namePx + trackPx + MARGIN_PX, height: rows.getTotalSize() + AXIS_PX }}
        >
          <Axis ticks={axisTicks} scale={scale} namePx={namePx} />
          <Grid ticks={axisTicks} scale={scale} namePx={namePx} />
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
                index={item.index}
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

function Toolbar({ zoom, onZoom, onFit }: { zoom: number; onZoom(factor: number): void; onFit(): void }) {
  return (
    <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line px-3 py-1">
      <ul className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-muted">
        <li className="inline-flex items-center gap-1.5">
          <span className="h-2.5 w-5 rounded-xs bg-running" aria-hidden="true" /> Attempt
        </li>
        <li className="inline-flex items-center gap-1.5">
          <span className={`${HATCHED} h-2.5 w-5 rounded-xs text-ready`} aria-hidden="true" /> Queued
        </li>
        <li className="inline-flex items-center gap-1.5">
          <span className={`${HATCHED} h-2.5 w-5 rounded-xs text-waiting`} aria-hidden="true" /> Waiting for retry
        </li>
      </ul>
      <div className="flex items-center gap-1">
        <Button variant="ghost" className="!h-7" aria-label="Zoom out" disabled={zoom <= 1} onClick={() => onZoom(0.5)}>
          −
        </Button>
        <Button
          variant="ghost"
          className="!h-7"
          aria-label="Zoom in"
          disabled={zoom >= ZOOM_MAX}
          onClick={() => onZoom(2)}
        >
          +
        </Button>
        <Button variant="ghost" className="!h-7" disabled={zoom === 1} onClick={onFit}>
          Fit
        </Button>
      </div>
    </div>
  );
}

interface TicksProps {
  ticks: Tick[];
  scale: number;
  namePx: number;
}

function Axis({ ticks, scale, namePx }: TicksProps) {
  return (
    <div className="sticky top-0 z-20 border-b border-line bg-surface" style={{ height: AXIS_PX }} aria-hidden="true">
      <div className="sticky left-0 z-10 h-full bg-surface" style={{ width: namePx }} />
      {ticks.map((tick) => (
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

/** The vertical lines of the ticks. */
function Grid({ ticks, scale, namePx }: TicksProps) {
  return ticks.map((tick) => (
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
  index: number;
  top: number;
  namePx: number;
  from: number;
  scale: number;
  isSelected: boolean;
  onSelect(nodeId: string): void;
}

function Row({ row, index, top, namePx, from, scale, isSelected, onSelect }: RowProps) {
  return (
    <button
      type="button"
      data-row={index}
      aria-label={describeRow(row, from)}
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
          className={`absolute top-2 size-2.5 rotate-45 rounded-xs ${FILL_CLASSES[toneOf(row.status)]}`}
          style={{ left: namePx + (row.markAt - from) * scale - 4 }}
        />
      )}
    </button>
  );
}

function BarShape({ bar, left, scale }: { bar: Bar; left: number; scale: number }) {
  const width = Math.max(BAR_WIDTH_MIN_PX, (bar.to - bar.from) * scale);
  const style = { left, width };
  if (bar.kind !== "running") {
    const tone = bar.kind === "queued" ? "text-ready" : "text-waiting";
    return <span className={`${HATCHED} absolute top-2 h-3 rounded-xs ${tone}`} style={style} />;
  }
  const status = outcomeStatus(bar.outcome) ?? "running";
  return (
    <span
      className={`absolute top-1.5 flex h-4 items-center overflow-hidden rounded-xs ${FILL_CLASSES[toneOf(status)]}`}
      style={style}
    >
      {bar.attempt > 1 && width > 22 && <span className="px-1 text-[0.625rem] text-surface">×{bar.attempt}</span>}
    </span>
  );
}

/** The description of a row for screen readers. */
function describeRow(row: GanttRow, from: number): string {
  if (row.bars.length === 0) {
    return `${row.id}: ${row.status}`;
  }
  const parts = row.bars.map((bar) => {
    const length = formatDuration((bar.to - bar.from) / 1000);
    const start = formatDuration((bar.from - from) / 1000);
    return bar.kind === "running"
      ? `attempt ${bar.attempt} after ${start}, ${outcomeText(bar.outcome).toLowerCase()}, ${length}`
      : `${bar.kind === "queued" ? "queued" : "waiting"} ${length}`;
  });
  return `${row.id}: ${row.status}; ${parts.join("; ")}`;
}

/** Move the focus by arrow keys. Rows outside the view are rendered first. */
function moveFocus(event: KeyboardEvent, count: number, scrollTo: (index: number) => void): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0;
  const index = Number((event.target as HTMLElement).dataset.row ?? Number.NaN) + step;
  if (step === 0 || Number.isNaN(index) || index < 0 || index >= count) {
    return;
  }
  event.preventDefault();
  const container = event.currentTarget;
  scrollTo(index);
  requestAnimationFrame(() => container.querySelector<HTMLElement>(`[data-row="${index}"]`)?.focus());
}
