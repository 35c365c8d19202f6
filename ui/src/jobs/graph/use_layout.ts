// The layout of a graph: from memory, from the session storage, or from the worker.

import { useEffect, useMemo, useState } from "react";
import type { Graph } from "../model/graph";
import type { UnitGraph } from "../model/groups";
import { cacheKey, type Direction, type Layout, type LayoutRequest, unitCount } from "./layout_types";
import type { LayoutJob, LayoutResult } from "./layout_worker";
import { layoutRequest, layoutWithMembers } from "./unit_sizes";

const CACHE_MAX = 24;
const SESSION_UNITS_MAX = 250;
const SESSION_PREFIX = "windlass.layout.1.";

const cache = new Map<string, Layout>();
const pending = new Map<string, Set<(layout: Layout) => void>>();
let worker: Worker | null = null;

/** Null while the layout is computed. */
export function useLayout(graph: Graph, unitGraph: UnitGraph, direction: Direction): Layout | null {
  const request = useMemo(() => layoutRequest(graph, unitGraph, direction), [graph, unitGraph, direction]);
  const key = useMemo(() => cacheKey(request), [request]);
  const [computed, setComputed] = useState<{ key: string; layout: Layout } | null>(null);
  const cached = useMemo(() => readCache(key, request), [key, request]);
  useEffect(() => {
    if (cached !== null) {
      return;
    }
    return compute(key, request, (layout) => setComputed({ key, layout }));
  }, [key, request, cached]);
  const layout = cached ?? (computed?.key === key ? computed.layout : null);
  return useMemo(() => layout && layoutWithMembers(graph, unitGraph, layout), [graph, unitGraph, layout]);
}

function readCache(key: string, request: LayoutRequest): Layout | null {
  const layout = cache.get(key);
  if (layout) {
    return layout;
  }
  try {
    const text = sessionStorage.getItem(SESSION_PREFIX + key);
    return text === null ? null : addToCache(key, restore(JSON.parse(text), request));
  } catch {
    // Without storage the layout is computed again.
    return null;
  }
}

/** Compute a layout in the worker; the returned function removes the listener. */
function compute(key: string, request: LayoutRequest, listener: (layout: Layout) => void): () => void {
  const listeners = pending.get(key) ?? new Set();
  listeners.add(listener);
  if (!pending.has(key)) {
    pending.set(key, listeners);
    getWorker().postMessage({ key, request } satisfies LayoutJob);
  }
  return () => listeners.delete(listener);
}

function getWorker(): Worker {
  if (worker === null) {
    worker = new Worker(new URL("./layout_worker.ts", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data }: MessageEvent<LayoutResult>) => {
      addToCache(data.key, data.layout);
      writeSession(data.key, data.layout);
      const listeners = pending.get(data.key);
      pending.delete(data.key);
      for (const listener of listeners ?? []) {
        listener(data.layout);
      }
    });
  }
  return worker;
}

function addToCache(key: string, layout: Layout): Layout {
  cache.set(key, layout);
  const [oldest] = cache.keys();
  if (cache.size > CACHE_MAX && oldest !== undefined) {
    cache.delete(oldest);
  }
  return layout;
}

/** The parts of a layout that are not in the request. */
interface StoredLayout {
  x: number[];
  y: number[];
  bends: number[];
  bendStarts: number[];
  width: number;
  height: number;
}

function writeSession(key: string, layout: Layout): void {
  if (unitCount(layout) > SESSION_UNITS_MAX) {
    return;
  }
  const { x, y, bends, bendStarts, width, height } = layout;
  const stored: StoredLayout = { x: [...x], y: [...y], bends: [...bends], bendStarts: [...bendStarts], width, height };
  try {
    sessionStorage.setItem(SESSION_PREFIX + key, JSON.stringify(stored));
  } catch {
    // Without storage the layout is computed again.
  }
}

function restore(stored: StoredLayout, request: LayoutRequest): Layout {
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
