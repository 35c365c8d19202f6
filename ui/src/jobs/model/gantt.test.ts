import { describe, expect, it } from "vitest";
import type { Definition, Event, Job } from "../../api/types";
import failing from "./fixtures/failing.json";
import flaky from "./fixtures/flaky.json";
import { ganttOf } from "./gantt";
import { graphOf } from "./graph";
import { mesh } from "./graph.fixture";
import { History } from "./history";
import { fresh } from "./state";
import { milliseconds } from "./timestamps";

function historyOf(recorded: { definition: unknown; job: unknown; events: unknown }): History {
  const history = new History(graphOf(recorded.definition as Definition), recorded.job as Job);
  history.append(recorded.events as Event[]);
  return history;
}

describe("the timeline", () => {
  it("shows each attempt, and the waits before and between them, without gaps or overlaps", () => {
    const history = historyOf(flaky);
    const { rows, from, to } = ganttOf(history.graph, history.latest, Date.now());
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
    bars.slice(1).forEach((bar, place) => {
      expect(bar.from).toBe(bars[place]?.to);
    });
    expect([from, to]).toEqual([bars[0]?.from, milliseconds(history.latest.endedAt ?? "")]);
  });

  it("lets a wait for the next attempt reach up to now", () => {
    const history = historyOf(flaky);
    const retrying = history.events.find((event) => event.event_type === "node_retrying") as Event;
    const now = milliseconds(retrying.timestamp) + 120;
    const { rows, to } = ganttOf(history.graph, history.stateAt(retrying.seq), now);
    const last = rows[0]?.bars.at(-1);

    expect([last?.kind, last?.isOpen, last?.to, to]).toEqual(["retry_wait", true, now, now]);
    expect(rows[1]?.bars).toEqual([]);
  });

  it("marks when nodes ended that were never sent to a worker", () => {
    const history = historyOf(failing);
    const { rows } = ganttOf(history.graph, history.latest, 0);
    const ship = rows.find((row) => row.id === "ship");

    expect([ship?.status, ship?.bars, ship?.markAt === null]).toEqual(["failed", [], false]);
  });

  it("has a row for each of 10,000 nodes that have not begun, in their order", () => {
    const graph = graphOf(mesh(100, 100));
    const { rows, from, to } = ganttOf(graph, fresh(graph), 5_000);

    expect([rows.length, from, to]).toEqual([10_000, 5_000, 5_000]);
    expect(rows.every((row, place) => row.node === place)).toBe(true);
  });
});

describe("instants", () => {
  it("keep their microseconds", () => {
    expect(milliseconds("2026-11-16T05:47:15.485428Z") - Date.parse("2026-11-16T05:47:15Z")).toBeCloseTo(485.428, 3);
    expect(milliseconds("2026-11-16T05:47:15Z")).toBe(Date.parse("2026-11-16T05:47:15Z"));
  });
});
