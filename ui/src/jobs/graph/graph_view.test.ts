import { describe, expect, it } from "vitest";
import { buildGraph } from "../model/graph";
import { definition, fan, mesh } from "../model/graph.fixture";
import { buildUnitGraph, findGroups } from "../model/groups";
import { initialState, type JobState } from "../model/state";
import { type ArrowKey, nextUnit } from "./arrow_navigation";
import { findVisibleCards } from "./card_layer";
import { edgeCount, endPoints, mayIntersect, traceEdge } from "./edges";
import { computeLayout } from "./layout";
import type { Direction, Layout } from "./layout_types";
import { boxOf, findActiveEdges, unitAt } from "./scene";
import { countTones, describeProgress, edgeStyle, groupTone, TONES, toneIndex, tonesOf } from "./tones";
import { searchNodes, unitName, withLineBreaks } from "./unit_names";
import { layoutRequest, layoutWithMembers } from "./unit_sizes";
import { centerBox, contains, fitBox, interpolate, keepVisible, minScale, visibleBox, zoomAt } from "./viewport";

const screen = { width: 1000, height: 600 };

function layOut(workflow = diamond, direction: Direction = "right", isExpanded = false) {
  const graph = buildGraph(workflow);
  const groups = findGroups(graph);
  const unitGraph = buildUnitGraph(graph, groups, new Set(isExpanded ? groups.map((group) => group.id) : []));
  return {
    graph,
    unitGraph,
    layout: layoutWithMembers(graph, unitGraph, computeLayout(layoutRequest(graph, unitGraph, direction))),
  };
}

const diamond = definition({ top: [], left: ["top"], right: ["top"], join: ["left", "right"] });

function withStatuses(workflow: Parameters<typeof buildGraph>[0], statuses: Record<string, string>): JobState {
  const state = initialState(buildGraph(workflow));
  for (const [id, status] of Object.entries(statuses)) {
    const number = state.graph.index.get(id) ?? -1;
    state.nodes[number] = { ...state.nodes[number], status } as JobState["nodes"][number];
  }
  return state;
}

describe("the viewport", () => {
  it("fits a box in the center", () => {
    for (const box of [
      { x: 0, y: 0, width: 4000, height: 300 },
      { x: 50, y: 900, width: 10, height: 9000 },
    ]) {
      const viewport = fitBox(box, screen);
      const view = visibleBox(viewport, screen);
      expect(contains(view, box)).toBe(true);
      expect(view.x + view.width / 2).toBeCloseTo(box.x + box.width / 2);
    }
  });

  it("keeps the point under the pointer when zooming", () => {
    const before = { x: 30, y: -20, scale: 0.5 };
    const after = zoomAt(before, 1.7, 400, 250);

    expect(after.scale).toBeCloseTo(0.85);
    expect((400 - after.x) / after.scale).toBeCloseTo((400 - before.x) / before.scale);
    expect((250 - after.y) / after.scale).toBeCloseTo((250 - before.y) / before.scale);
  });

  it("zooms out only a little further than the whole drawing", () => {
    const drawing = { width: 28_000, height: 7_000 };
    const whole = fitBox({ x: 0, y: 0, ...drawing }, screen);
    let viewport = whole;
    for (let step = 0; step < 50; step++) {
      viewport = zoomAt(viewport, 0.8, 500, 300, minScale(drawing, screen));
    }

    expect(viewport.scale / whole.scale).toBeCloseTo(0.6);
  });

  it("keeps a part of the drawing visible", () => {
    const drawing = { width: 800, height: 400 };
    for (const [x, y] of [
      [99_999, 99_999],
      [-99_999, -99_999],
    ] as const) {
      const viewport = keepVisible({ x, y, scale: 1 }, drawing, screen);
      const view = visibleBox(viewport, screen);
      expect(view.x < drawing.width && view.x + view.width > 0).toBe(true);
      expect(view.y < drawing.height && view.y + view.height > 0).toBe(true);
    }
  });

  it("interpolates from start to end", () => {
    const [from, to] = [fitBox({ x: 0, y: 0, width: 9000, height: 900 }, screen), centerBox(box(500, 500), screen, 1)];

    expect(interpolate(from, to, 0)).toEqual(from);
    const last = interpolate(from, to, 1);
    expect([last.x, last.y, last.scale].map(Math.round)).toEqual([to.x, to.y, to.scale].map(Math.round));
  });
});

function box(x: number, y: number) {
  return { x, y, width: 100, height: 50 };
}

describe("cards", () => {
  it("are the visible units, and none when zoomed out or too many", () => {
    const { layout } = layOut(mesh(40, 40));
    const near = findVisibleCards(layout, { x: 0, y: 0, scale: 1 }, screen);
    const far = findVisibleCards(
      layout,
      fitBox({ x: 0, y: 0, width: layout.width, height: layout.height }, screen),
      screen,
    );

    expect(near.units.length).toBeGreaterThan(5);
    expect(near.units.length).toBeLessThan(120);
    expect(near.isZoomedOut).toBe(false);
    expect([far.units, far.isZoomedOut]).toEqual([[], true]);
    expect(findVisibleCards(layout, { x: 0, y: 0, scale: 0.3 }, { width: 3000, height: 2000 }).units).toEqual([]);
  });

  it("are found by position, members of a group before its frame", () => {
    const { layout, unitGraph } = layOut(fan(100), "right", true);
    const frame = unitGraph.units.findIndex((unit) => unit.firstMember >= 0);
    const member = boxOf(layout, unitGraph.units[frame]?.firstMember ?? -1);

    expect(unitAt(layout, member.x + 5, member.y + 5)).toBe(unitGraph.units[frame]?.firstMember);
    expect(unitAt(layout, boxOf(layout, frame).x + 2, boxOf(layout, frame).y + 2)).toBe(frame);
    expect(unitAt(layout, -50, -50)).toBe(-1);
  });
});

describe("edges", () => {
  it("connect the sides of units", () => {
    for (const direction of ["right", "down"] as const) {
      const { layout } = layOut(diamond, direction);
      for (let edge = 0; edge < edgeCount(layout); edge++) {
        const points: [number, number][] = [];
        const path = {
          moveTo: (x: number, y: number) => points.push([x, y]),
          lineTo: (x: number, y: number) => points.push([x, y]),
          bezierCurveTo: (_1: number, _2: number, _3: number, _4: number, x: number, y: number) => points.push([x, y]),
        };
        traceEdge(path, layout, edge);
        const [x1, y1, x2, y2] = endPoints(layout, edge);
        expect([points[0], points.at(-1)]).toEqual([
          [x1, y1],
          [x2, y2],
        ]);
        expect(direction === "right" ? x1 < x2 : y1 < y2).toBe(true);
      }
    }
  });

  it("are omitted outside the visible box", () => {
    const { layout } = layOut();

    expect(mayIntersect(layout, 0, { x: -500, y: -500, width: 400, height: 400 })).toBe(false);
    expect(mayIntersect(layout, 0, { x: 0, y: 0, width: layout.width, height: layout.height })).toBe(true);
  });

  it("have a style by the status of both units", () => {
    const style = (from: string, to: string) => edgeStyle(toneIndex(from), toneIndex(to));

    expect(style("completed", "pending")).toBe("completed");
    expect(style("completed", "running")).toBe("active");
    expect(style("running", "pending")).toBe("idle");
    expect(style("failed", "failed")).toBe("failed");
    expect(style("failed", "completed")).toBe("completed");
    expect(style("completed", "skipped")).toBe("skipped");
    expect(edgeStyle(255, 255)).toBe("idle");
  });

  it("are animated only if there are few", () => {
    const few = layOut();
    const state = withStatuses(diamond, { top: "completed", left: "running", right: "running" });
    expect(findActiveEdges(few.layout, tonesOf(few.unitGraph, state)).length).toBe(2);

    const many: Layout = layOut(mesh(2, 200)).layout;
    const tones = Uint8Array.from({ length: 400 }, (_, unit) => toneIndex(unit < 200 ? "completed" : "running"));
    expect(findActiveEdges(many, tones)).toEqual([]);
  });
});

describe("tones", () => {
  it("of a group are failed, or those of its most active member", () => {
    const tone = (statuses: string[]) => {
      const counts = TONES.map((name) => statuses.filter((status) => status === name).length);
      return TONES[groupTone(counts)];
    };

    expect(tone(["completed", "running", "failed"])).toBe("failed");
    expect(tone(["completed", "waiting", "pending"])).toBe("waiting");
    expect(tone(["completed", "pending"])).toBe("running");
    expect(tone(["pending", "pending"])).toBe("pending");
    expect(tone(["completed", "skipped"])).toBe("completed");
    expect(tone(["skipped"])).toBe("skipped");
  });

  it("are counted and described", () => {
    const state = withStatuses(diamond, { top: "completed", left: "completed", right: "failed" });

    expect(describeProgress(state)).toBe("4 nodes: 1 pending, 2 completed, 1 failed");
    expect(countTones(state, [0, 3])).toEqual([1, 0, 0, 0, 1, 0, 0, 0]);
  });
});

type FourNumbers = [number, number, number, number];

describe("the arrow keys", () => {
  it.each([
    ["right", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"],
    ["down", "ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft"],
  ] as const)(
    "move along edges and within columns, with direction %s",
    (direction, forward, back, following, previous) => {
      const { graph, unitGraph, layout } = layOut(diamond, direction);
      const [top, left, right, join] = ["top", "left", "right", "join"].map(
        (id) => graph.index.get(id) ?? -1,
      ) as FourNumbers;
      const go = (unit: number, ...keys: ArrowKey[]) =>
        keys.reduce((current, key) => nextUnit(layout, unitGraph, current, key), unit);

      expect([left, right]).toContain(go(top, forward));
      expect(go(left, following)).toBe(right);
      expect(go(right, previous)).toBe(left);
      expect(go(top, forward, forward)).toBe(join);
      expect(go(join, back, back)).toBe(top);
    },
  );

  it("stay at the edge of the graph, and enter an expanded group", () => {
    const { unitGraph, layout } = layOut(fan(100), "right", true);
    const member = nextUnit(layout, unitGraph, 0, "ArrowRight");

    expect(nextUnit(layout, unitGraph, 0, "ArrowLeft")).toBe(0);
    expect(unitGraph.units[member]?.id).toMatch(/^item_/);
    expect(unitGraph.units[nextUnit(layout, unitGraph, member, "ArrowRight")]?.id).toBe("last");
  });
});

describe("names", () => {
  it("are found by any part, exact matches and prefixes first", () => {
    const graph = buildGraph(definition({ reload: [], load_users: [], load: [], download: [], other: [] }));

    expect(searchNodes(graph, " LOAD ", 8)).toEqual(["load", "load_users", "reload", "download"]);
    expect(searchNodes(graph, "load", 2)).toEqual(["load", "load_users"]);
    expect(searchNodes(graph, "", 8)).toEqual([]);
  });

  it("of groups contain the count and handler", () => {
    const { graph, unitGraph } = layOut(fan(1_000));

    expect(unitGraph.units.map((unit) => unitName(graph, unit))).toEqual(["first", "1,000 × sleep", "last"]);
  });

  it("may break after separators", () => {
    expect(withLineBreaks("load_users-eu").split("\u200b")).toEqual(["load_", "users-", "eu"]);
  });
});
