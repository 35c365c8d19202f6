import { describe, expect, it } from "vitest";
import type { Definition, Event, Job } from "../../api/types";
import failing from "./fixtures/failing.json";
import flaky from "./fixtures/flaky.json";
import { buildGantt } from "./gantt";
import { buildGraph } from "./graph";
import { mesh } from "./graph.fixture";
import { History } from "./history";
import { initialState } from "./state";
import { toMilliseconds } from "./timestamps";

function historyOf(recorded: { definition: unknown; job: unknown; events: unknown }): History {
  const history = new History(buildGraph(recorded.definition as Definition), recorded.job as Job);
  history.append(recorded.events as Event[]);
  return history;
}

describe("buildGantt", () => {
  it("has bars for attempts and waits without gaps or overlaps", () => {
    const history = historyOf(flaky);
    const { rows, from, to } = buildGantt(history.graph, history.latest, Date.now());
    const bars = rows[0]?.bars ?? [];
    const kinds = bars.map((bar) => bar.kind);

    expect(rows.map((row) => row.id)).toEqual(["call", "report"]);
    expect(kinds.filter((kind) => kind === "running").length).toBe(3);
    expect(kinds.filter((kind) => kind === "retry_wait").length).toBe(2);
    expect(bars.filter((bar) => bar.kind === "running").map((bar) => bar.outcome)).toEqual([
      "retrying",
      "retrying",
      "completed",
    ]);
    bars.slice(1).forEach((bar, index) => {
      expect(bar.from).toBe(bars[index]?.to);
    });
    expect([from, to]).toEqual([bars[0]?.from, toMilliseconds(history.latest.endedAt ?? "")]);
  });

  it("extends a wait for the next attempt to now", () => {
    const history = historyOf(flaky);
    const retrying = history.events.find((event) => event.event_type === "node_retrying") as Event;
    const now = toMilliseconds(retrying.timestamp) + 120;
    const { rows, to } = buildGantt(history.graph, history.stateAt(retrying.seq), now);
    const last = rows[0]?.bars.at(-1);

    expect([last?.kind, last?.isOpen, last?.to, to]).toEqual(["retry_wait", true, now, now]);
    expect(rows[1]?.bars).toEqual([]);
  });

  it("marks the end of nodes that were never dispatched", () => {
    const history = historyOf(failing);
    const { rows } = buildGantt(history.graph, history.latest, 0);
    const ship = rows.find((row) => row.id === "ship");

    expect([ship?.status, ship?.bars, ship?.markAt === null]).toEqual(["failed", [], false]);
  });

  it("has a row for each of 10,000 pending nodes, in graph order", () => {
    const graph = buildGraph(mesh(100, 100));
    const { rows, from, to } = buildGantt(graph, initialState(graph), 5_000);

    expect([rows.length, from, to]).toEqual([10_000, 5_000, 5_000]);
    expect(rows.every((row, index) => row.node === index)).toBe(true);
  });
});

describe("toMilliseconds", () => {
  it("keeps microseconds", () => {
    expect(toMilliseconds("2026-11-16T05:47:15.485428Z") - Date.parse("2026-11-16T05:47:15Z")).toBeCloseTo(485.428, 3);
    expect(toMilliseconds("2026-11-16T05:47:15Z")).toBe(Date.parse("2026-11-16T05:47:15Z"));
  });
});
