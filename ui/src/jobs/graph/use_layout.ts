// The layout of what is drawn: from memory, from the session, or from the worker.

import { useEffect, useMemo, useState } from "react";
import type { Graph } from "../model/graph";
import type { Drawn } from "../model/groups";
import { type Direction, keyOf, type Layout, type LayoutRequest, unitCount } from "./layout_types";
import type { Answered, Asked } from "./layout_worker";
import { requestOf, withMembers } from "./unit_sizes";

const KEPT_MAX = 24;
const SESSION_UNITS_MAX = 250;
const SESSION_PREFIX = "windlass.layout.1.";

const known = new Map<string, Layout>();
const waiting = new Map<string, Set<(layout: Layout) => void>>();
let worker: Worker | null = null;

/** Null while it is worked out for the first time. */
export function useLayout(graph: Graph, drawn: Drawn, direction: Direction): Layout | null {
  const request = useMemo(() => requestOf(graph, drawn, direction), [graph, drawn, direction]);
  const key = useMemo(() => keyOf(request), [request]);
  const [found, setFound] = useState<{ key: string; layout: Layout } | null>(null);
  const ready = useMemo(() => remembered(key, request), [key, request]);
  useEffect(() => {
    if (ready !== null) {
      return;
    }
    return ask(key, request, (layout) => setFound({ key, layout }));
  }, [key, request, ready]);
  const outer = ready ?? (found?.key === key ? found.layout : null);
  return useMemo(() => outer && withMembers(graph, drawn, outer), [graph, drawn, outer]);
}

function remembered(key: string, request: LayoutRequest): Layout | null {
  const layout = known.get(key);
  if (layout) {
    return layout;
  }
  try {
    const text = sessionStorage.getItem(SESSION_PREFIX + key);
    return text === null ? null : keep(key, revived(JSON.parse(text), request));
  } catch {
    // Storage that is forbidden or full only costs time.
    return null;
  }
}

/** Asks the worker; the function that it returns withdraws the question. */
function ask(key: string, request: LayoutRequest, tell: (layout: Layout) => void): () => void {
  const tellers = waiting.get(key) ?? new Set();
  tellers.add(tell);
  if (!waiting.has(key)) {
    waiting.set(key, tellers);
    theWorker().postMessage({ key, request } satisfies Asked);
  }
  return () => tellers.delete(tell);
}

function theWorker(): Worker {
  if (worker === null) {
    worker = new Worker(new URL("./layout_worker.ts", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data }: MessageEvent<Answered>) => {
      keep(data.key, data.layout);
      store(data.key, data.layout);
      const tellers = waiting.get(data.key);
      waiting.delete(data.key);
      for (const tell of tellers ?? []) {
        tell(data.layout);
      }
    });
  }
  return worker;
}

function keep(key: string, layout: Layout): Layout {
  known.set(key, layout);
  const [oldest] = known.keys();
  if (known.size > KEPT_MAX && oldest !== undefined) {
    known.delete(oldest);
  }
  return layout;
}

/** Only what the request does not tell. */
interface Stored {
  x: number[];
  y: number[];
  bends: number[];
  bendStarts: number[];
  width: number;
  height: number;
}

function store(key: string, layout: Layout): void {
  if (unitCount(layout) > SESSION_UNITS_MAX) {
    return;
  }
  const { x, y, bends, bendStarts, width, height } = layout;
  const stored: Stored = { x: [...x], y: [...y], bends: [...bends], bendStarts: [...bendStarts], width, height };
  try {
    sessionStorage.setItem(SESSION_PREFIX + key, JSON.stringify(stored));
  } catch {
    // Storage that is forbidden or full only costs time.
  }
}

function revived(stored: Stored, request: LayoutRequest): Layout {
  return {
    ...request,
    x: Float32Array.from(stored.x),
    y: Float32Array.from(stored.y),
    bends: Float32Array.from(stored.bends),
    bendStarts: Int32Array.from(stored.bendStarts),
    width: stored.width,
    height: stored.height,
  };
}
