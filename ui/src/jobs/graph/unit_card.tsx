// Cards of the graph: a node, a loop, or a group.

import { memo, type ReactNode } from "react";
import { StatusIcon, type Tone, toneOf } from "../../components/status";
import { formatCount, formatDuration, formatRelativeTime } from "../../lib/format";
import type { GraphNode } from "../model/graph";
import type { LoopCounts, NodeState } from "../model/state";
import { toMilliseconds } from "../model/timestamps";
import { ProgressRing } from "./progress_ring";
import { describeCounts, TONES } from "./tones";
import { withLineBreaks } from "./unit_names";
import { FRAME_HEADER } from "./unit_sizes";

interface Position {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface CardProps extends Position {
  number: number;
  node: GraphNode;
  /** Null for a definition. */
  state: NodeState | null;
  loop: LoopCounts | null;
  label: string | undefined;
  isSelected: boolean;
  /** Whether the Tab key reaches this card. */
  isTabStop: boolean;
  isZoomedOut: boolean;
  /** Null if the card does not depend on the time. */
  now: number | null;
}

const TONE_CLASSES: Record<Tone, string> = {
  pending: "border-line border-dashed bg-surface",
  ready: "border-ready/60 bg-surface shadow-xs",
  running: "border-running bg-surface shadow-[0_0_0_3px_color-mix(in_srgb,var(--running)_18%,transparent)]",
  waiting: "border-waiting bg-surface shadow-xs",
  completed: "border-completed/45 bg-surface shadow-xs",
  failed: "border-failed bg-[color-mix(in_srgb,var(--failed)_7%,var(--surface))]",
  skipped: "border-line border-dashed bg-paper",
  cancelled: "border-cancelled/50 bg-surface shadow-xs",
};

const CARD_CLASS = "absolute inset-0 flex items-center gap-2.5 rounded-[9px] border px-3 text-left hover:border-accent";

/** Names when zoomed in, and when zoomed out: larger, over two lines. */
const NAME_CLASS = "block truncate text-[13px] leading-5";
const LARGE_NAME_CLASS = "line-clamp-2 text-[20px] leading-[22px] wrap-anywhere";

export const NodeCard = memo(function NodeCard(props: CardProps) {
  const { number, node, state, loop, label, isSelected, isTabStop, isZoomedOut } = props;
  const tone = state ? toneOf(state.status) : null;
  const isMarker = node.kind !== "task";
  const toneClass = tone ? TONE_CLASSES[tone] : "border-line bg-surface";
  return (
    <Positioned {...props}>
      <button
        type="button"
        data-unit={number}
        tabIndex={isTabStop ? 0 : -1}
        aria-current={isSelected ? "true" : undefined}
        aria-label={describeNode(props)}
        className={`${CARD_CLASS} ${toneClass} ${isMarker ? "justify-center rounded-full px-2" : ""} ${
          isSelected ? "outline-2 outline-offset-2 outline-accent" : ""
        }`}
      >
        {loop ? (
          <ProgressRing loop={loop} />
        ) : (
          state && <StatusIcon status={state.status} size={isZoomedOut ? 22 : 18} />
        )}
        <span className="min-w-0 flex-1">
          <span
            className={`font-semibold ${isZoomedOut ? LARGE_NAME_CLASS : NAME_CLASS} ${tone === "skipped" || tone === "pending" ? "text-muted" : ""}`}
          >
            {isZoomedOut ? withLineBreaks(node.id) : node.id}
          </span>
          {!isMarker && !isZoomedOut && <DetailLine {...props} />}
          {loop && <Counts counts={loopCounts(loop)} isZoomedOut={isZoomedOut} />}
        </span>
        {state && state.attempt > 1 && <AttemptBadge attempt={state.attempt} />}
      </button>
      {label !== undefined && (
        <span className="pointer-events-none absolute -top-2.5 right-2 rounded bg-waiting px-1.5 text-[11px] font-semibold leading-4 text-surface">
          {label}
        </span>
      )}
      {state && hasMorePages(state) && <PagesBadge />}
    </Positioned>
  );
});

function Positioned({ x, y, width, height, children }: Position & { children: ReactNode }) {
  return (
    <div className="absolute left-0 top-0" style={{ transform: `translate(${x}px, ${y}px)`, width, height }}>
      {children}
    </div>
  );
}

/** The handler or progress, and the duration or time to wait. */
function DetailLine({ node, state, loop, now }: CardProps) {
  const time = state ? timeText(state, now) : null;
  return (
    <span className="flex items-baseline justify-between gap-2 text-[11px] leading-4 text-muted">
      <span className="truncate font-mono">
        {loop
          ? `${formatCount(loop.completed + loop.failed + loop.skipped)} / ${formatCount(loop.total)}`
          : node.handler}
        {!loop && node.isLoop && " · loop"}
        {node.hasWhen && !state && " · when"}
      </span>
      {time && <span className="whitespace-nowrap tabular-nums">{time}</span>}
    </span>
  );
}

function timeText(state: NodeState, now: number | null): string | null {
  if (state.status === "waiting" && state.waitUntil !== null && now !== null) {
    return Date.parse(state.waitUntil) > now + 1000
      ? formatRelativeTime(state.waitUntil, now).replace("just now", "soon")
      : "soon";
  }
  if (state.startedAt === null || state.status === "waiting") {
    return null;
  }
  const end = state.endedAt === null ? (now ?? Date.now()) : toMilliseconds(state.endedAt);
  return formatDuration(Math.max(0, end - toMilliseconds(state.startedAt)) / 1000);
}

function hasMorePages({ exhaustedPages, exhaustedIterations }: NodeState): boolean {
  return exhaustedPages !== null || exhaustedIterations > 0;
}

/** Marks a node that had more pages than it may read, at the edge of its card: there is no room inside. */
function PagesBadge() {
  return (
    <span className="pointer-events-none absolute -bottom-2.5 right-2 rounded bg-failed px-1.5 text-[11px] font-semibold leading-4 text-surface">
      more pages left
    </span>
  );
}

function AttemptBadge({ attempt }: { attempt: number }) {
  return (
    <span className="shrink-0 rounded-full border border-waiting/40 bg-surface px-1.5 text-[11px] font-semibold leading-[18px] tabular-nums text-waiting">
      ×{attempt}
    </span>
  );
}

function loopCounts(loop: LoopCounts): number[] {
  const { total, begun, completed, failed, skipped, running, waiting, cancelled } = loop;
  const pending = Math.max(0, total - begun);
  return [pending, 0, running, waiting, completed, failed, skipped, cancelled];
}

/** The counts of all tones that occur. */
function Counts({ counts, isZoomedOut }: { counts: readonly number[]; isZoomedOut: boolean }) {
  return (
    <span className="flex gap-2.5 overflow-hidden">
      {TONES.map((tone, index) => {
        const count = counts[index] ?? 0;
        return count === 0 ? null : (
          <span
            key={tone}
            className={`flex items-center gap-1 leading-4 tabular-nums text-muted ${isZoomedOut ? "text-[14px]" : "text-[11px]"}`}
          >
            <StatusIcon status={tone} size={isZoomedOut ? 14 : 11} />
            {formatShortCount(count)}
          </span>
        );
      })}
    </span>
  );
}

/** 940, 12.3k, 1.2m. */
function formatShortCount(number: number): string {
  if (number < 10_000) {
    return formatCount(number);
  }
  return number < 1_000_000 ? `${(number / 1000).toFixed(number < 100_000 ? 1 : 0)}k` : `${(number / 1e6).toFixed(1)}m`;
}

interface GroupProps extends Position {
  number: number;
  name: string;
  /** The ids of the first and last member. */
  members: string;
  /** By tone; null for a definition. */
  counts: readonly number[] | null;
  tone: Tone | null;
  isSelected: boolean;
  isTabStop: boolean;
  isZoomedOut: boolean;
}

export function GroupCard(props: GroupProps) {
  const { number, name, members, counts, tone, isSelected, isTabStop, isZoomedOut } = props;
  const toneClass = tone ? TONE_CLASSES[tone] : "border-line bg-surface";
  return (
    <Positioned {...props}>
      <span className="absolute inset-0 translate-x-2 translate-y-2 rounded-[9px] border border-line bg-surface" />
      <span className="absolute inset-0 translate-x-1 translate-y-1 rounded-[9px] border border-line bg-surface" />
      <button
        type="button"
        data-unit={number}
        tabIndex={isTabStop ? 0 : -1}
        aria-expanded="false"
        aria-label={`${name}, ${members}${counts ? `, ${describeCounts(counts)}` : ""}`}
        className={`${CARD_CLASS} ${toneClass} ${isSelected ? "outline-2 outline-offset-2 outline-accent" : ""}`}
      >
        {tone && <StatusIcon status={tone} size={isZoomedOut ? 22 : 18} />}
        <span className="min-w-0 flex-1">
          <span className={`font-semibold ${isZoomedOut ? LARGE_NAME_CLASS : NAME_CLASS}`}>{name}</span>
          {!isZoomedOut && <span className="block truncate font-mono text-[11px] leading-4 text-muted">{members}</span>}
          {counts && <Counts counts={counts} isZoomedOut={isZoomedOut} />}
        </span>
        {!isZoomedOut && (
          <span className="absolute right-3 top-2 text-[11px] font-medium leading-5 text-accent">Expand</span>
        )}
      </button>
    </Positioned>
  );
}

/** The frame around the members of an expanded group. */
export function GroupFrame(props: Position & { name: string; counts: readonly number[] | null }) {
  const { name, counts } = props;
  return (
    <Positioned {...props}>
      <div className="h-full rounded-xl border border-dashed border-accent/60">
        <div className="flex items-center gap-4 px-5" style={{ height: FRAME_HEADER }}>
          <span className="text-[15px] font-semibold">{name}</span>
          {counts && <Counts counts={counts} isZoomedOut={false} />}
        </div>
      </div>
    </Positioned>
  );
}

/** The description of a node for screen readers. */
function describeNode({ node, state, loop, label, now }: CardProps): string {
  const parts = [node.id, node.kind === "task" ? node.handler : node.kind];
  if (state) {
    parts.push(state.status);
    const time = timeText(state, state.endedAt === null ? null : now);
    if (state.attempt > 1) {
      parts.push(`attempt ${state.attempt}`);
    }
    if (time && state.endedAt !== null) {
      parts.push(time);
    }
    if (hasMorePages(state)) {
      parts.push("more pages left");
    }
  }
  if (loop) {
    parts.push(`loop of ${formatCount(loop.total)}: ${describeCounts(loopCounts(loop))}`);
  }
  return [...parts, ...(label ? [label] : [])].join(", ");
}
