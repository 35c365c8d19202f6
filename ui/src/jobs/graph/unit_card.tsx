// One unit of the graph as an element of the page: a node, a loop, or a group of many.

import { memo, type ReactNode } from "react";
import { StatusIcon, type Tone, toneOf } from "../../components/status";
import { ago, count, duration } from "../../lib/format";
import type { GraphNode } from "../model/graph";
import type { LoopCounts, NodeState } from "../model/state";
import { milliseconds } from "../model/timestamps";
import { Ring } from "./progress_ring";
import { TONES, toldCounts } from "./tones";
import { breakable } from "./unit_names";
import { FRAME_HEAD } from "./unit_sizes";

interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface CardProps extends Place {
  number: number;
  node: GraphNode;
  /** Null where only the definition is shown. */
  state: NodeState | null;
  loop: LoopCounts | null;
  mark: string | undefined;
  isSelected: boolean;
  /** The one that the tab key leads to. */
  isFirst: boolean;
  isFar: boolean;
  /** Null for those that the time of day does not change. */
  now: number | null;
}

const LOOKS: Record<Tone, string> = {
  pending: "border-line border-dashed bg-surface",
  ready: "border-ready/60 bg-surface shadow-xs",
  running: "border-running bg-surface shadow-[0_0_0_3px_color-mix(in_srgb,var(--running)_18%,transparent)]",
  waiting: "border-waiting bg-surface shadow-xs",
  completed: "border-completed/45 bg-surface shadow-xs",
  failed: "border-failed bg-[color-mix(in_srgb,var(--failed)_7%,var(--surface))]",
  skipped: "border-line border-dashed bg-paper",
  cancelled: "border-cancelled/50 bg-surface shadow-xs",
};

const CARD = "absolute inset-0 flex items-center gap-2.5 rounded-[9px] border px-3 text-left hover:border-accent";

/** A name that is read from near, and one from far: larger, over two lines. */
const NEAR = "block truncate text-[13px] leading-5";
const FAR = "line-clamp-2 text-[20px] leading-[22px] wrap-anywhere";

export const NodeCard = memo(function NodeCard(props: CardProps) {
  const { number, node, state, loop, mark, isSelected, isFirst, isFar } = props;
  const tone = state ? toneOf(state.status) : null;
  const isMarker = node.kind !== "task";
  const look = tone ? LOOKS[tone] : "border-line bg-surface";
  return (
    <Placed {...props}>
      <button
        type="button"
        data-unit={number}
        tabIndex={isFirst ? 0 : -1}
        aria-current={isSelected ? "true" : undefined}
        aria-label={spoken(props)}
        className={`${CARD} ${look} ${isMarker ? "justify-center rounded-full px-2" : ""} ${
          isSelected ? "outline-2 outline-offset-2 outline-accent" : ""
        }`}
      >
        {loop ? <Ring loop={loop} /> : state && <StatusIcon status={state.status} size={isFar ? 22 : 18} />}
        <span className="min-w-0 flex-1">
          <span
            className={`font-semibold ${isFar ? FAR : NEAR} ${tone === "skipped" || tone === "pending" ? "text-muted" : ""}`}
          >
            {isFar ? breakable(node.id) : node.id}
          </span>
          {!isMarker && !isFar && <Second {...props} />}
          {loop && <Counts counts={loopCounts(loop)} isFar={isFar} />}
        </span>
        {state && state.attempt > 1 && <Attempts many={state.attempt} />}
      </button>
      {mark !== undefined && (
        <span className="pointer-events-none absolute -top-2.5 right-2 rounded bg-waiting px-1.5 text-[11px] font-semibold leading-4 text-surface">
          {mark}
        </span>
      )}
    </Placed>
  );
});

function Placed({ x, y, width, height, children }: Place & { children: ReactNode }) {
  return (
    <div className="absolute left-0 top-0" style={{ transform: `translate(${x}px, ${y}px)`, width, height }}>
      {children}
    </div>
  );
}

/** What runs it, and how long it took or takes or waits. */
function Second({ node, state, loop, now }: CardProps) {
  const time = state ? timeOf(state, now) : null;
  return (
    <span className="flex items-baseline justify-between gap-2 text-[11px] leading-4 text-muted">
      <span className="truncate font-mono">
        {loop ? `${count(loop.completed + loop.failed + loop.skipped)} / ${count(loop.total)}` : node.handler}
        {!loop && node.isLoop && " · loop"}
        {node.hasWhen && !state && " · when"}
      </span>
      {time && <span className="whitespace-nowrap tabular-nums">{time}</span>}
    </span>
  );
}

function timeOf(state: NodeState, now: number | null): string | null {
  if (state.status === "waiting" && state.waitUntil !== null && now !== null) {
    return Date.parse(state.waitUntil) > now + 1000 ? ago(state.waitUntil, now).replace("just now", "soon") : "soon";
  }
  if (state.startedAt === null || state.status === "waiting") {
    return null;
  }
  const end = state.endedAt === null ? (now ?? Date.now()) : milliseconds(state.endedAt);
  return duration(Math.max(0, end - milliseconds(state.startedAt)) / 1000);
}

function Attempts({ many }: { many: number }) {
  return (
    <span className="shrink-0 rounded-full border border-waiting/40 bg-surface px-1.5 text-[11px] font-semibold leading-[18px] tabular-nums text-waiting">
      ×{many}
    </span>
  );
}

function loopCounts(loop: LoopCounts): number[] {
  const { total, begun, completed, failed, skipped, running, waiting, cancelled } = loop;
  const pending = Math.max(0, total - begun);
  return [pending, 0, running, waiting, completed, failed, skipped, cancelled];
}

/** How many are in each state, those that none is in left out. */
export function Counts({ counts, isFar }: { counts: readonly number[]; isFar: boolean }) {
  return (
    <span className="flex gap-2.5 overflow-hidden">
      {TONES.map((tone, number) => {
        const many = counts[number] ?? 0;
        return many === 0 ? null : (
          <span
            key={tone}
            className={`flex items-center gap-1 leading-4 tabular-nums text-muted ${isFar ? "text-[14px]" : "text-[11px]"}`}
          >
            <StatusIcon status={tone} size={isFar ? 14 : 11} />
            {short(many)}
          </span>
        );
      })}
    </span>
  );
}

/** 940, 12.3k, 1.2m: as wide as a card has room for. */
export function short(number: number): string {
  if (number < 10_000) {
    return count(number);
  }
  return number < 1_000_000 ? `${(number / 1000).toFixed(number < 100_000 ? 1 : 0)}k` : `${(number / 1e6).toFixed(1)}m`;
}

interface GroupProps extends Place {
  number: number;
  name: string;
  about: string;
  /** By tone; null where only the definition is shown. */
  counts: readonly number[] | null;
  tone: Tone | null;
  isSelected: boolean;
  isFirst: boolean;
  isFar: boolean;
}

export function GroupCard(props: GroupProps) {
  const { number, name, about, counts, tone, isSelected, isFirst, isFar } = props;
  const look = tone ? LOOKS[tone] : "border-line bg-surface";
  return (
    <Placed {...props}>
      <span className="absolute inset-0 translate-x-2 translate-y-2 rounded-[9px] border border-line bg-surface" />
      <span className="absolute inset-0 translate-x-1 translate-y-1 rounded-[9px] border border-line bg-surface" />
      <button
        type="button"
        data-unit={number}
        tabIndex={isFirst ? 0 : -1}
        aria-expanded="false"
        aria-label={`${name}, group of ${about}${counts ? `, ${toldCounts(counts)}` : ""}. Open it`}
        className={`${CARD} ${look} ${isSelected ? "outline-2 outline-offset-2 outline-accent" : ""}`}
      >
        {tone && <StatusIcon status={tone} size={isFar ? 22 : 18} />}
        <span className="min-w-0 flex-1">
          <span className={`font-semibold ${isFar ? FAR : NEAR}`}>{name}</span>
          {!isFar && <span className="block truncate font-mono text-[11px] leading-4 text-muted">{about}</span>}
          {counts && <Counts counts={counts} isFar={isFar} />}
        </span>
        {!isFar && <span className="absolute right-3 top-2 text-[11px] font-medium leading-5 text-accent">Open</span>}
      </button>
    </Placed>
  );
}

/** Around the members of a group that is open. */
export function GroupFrame(props: Place & { name: string; counts: readonly number[] | null }) {
  const { name, counts } = props;
  return (
    <Placed {...props}>
      <div className="h-full rounded-xl border border-dashed border-accent/60">
        <div className="flex items-center gap-4 px-5" style={{ height: FRAME_HEAD }}>
          <span className="text-[15px] font-semibold">{name}</span>
          {counts && <Counts counts={counts} isFar={false} />}
        </div>
      </div>
    </Placed>
  );
}

function spoken({ node, state, loop, mark, now }: CardProps): string {
  const parts = [node.id, node.kind === "task" ? node.handler : node.kind];
  if (state) {
    parts.push(state.status);
    const time = timeOf(state, state.endedAt === null ? null : now);
    if (state.attempt > 1) {
      parts.push(`attempt ${state.attempt}`);
    }
    if (time && state.endedAt !== null) {
      parts.push(time);
    }
  }
  if (loop) {
    parts.push(`loop of ${count(loop.total)}: ${toldCounts(loopCounts(loop))}`);
  }
  return [...parts, ...(mark ? [mark] : [])].join(", ");
}
