import { describe, expect, it } from "vitest";
import { graphOf } from "../model/graph";
import { definition, fan, mesh } from "../model/graph.fixture";
import { drawnOf, groupsOf } from "../model/groups";
import { fresh, type JobState } from "../model/state";
import { next, type Way } from "./arrow_navigation";
import { inSight } from "./card_layer";
import { edgeCount, endsOf, mayTouch, traceEdge } from "./edges";
import { layoutOf } from "./layout";
import type { Direction, Layout } from "./layout_types";
import { boxOf, flowingEdges, unitAt } from "./scene";
import { countsOf, edgeLook, groupTone, summaryOf, TONES, toneNumber, tonesOf } from "./tones";
import { breakable, found, nameOf } from "./unit_names";
import { requestOf, withMembers } from "./unit_sizes";
import { between, centred, contains, fitted, kept, leastScale, seen, zoomed } from "./viewport";

const screen = { width: 1000, height: 600 };

function laidOut(written = diamond, direction: Direction = "right", opened = false) {
  const graph = graphOf(written);
  const groups = groupsOf(graph);
  const drawn = drawnOf(graph, groups, new Set(opened ? groups.map((group) => group.id) : []));
  return { graph, drawn, layout: withMembers(graph, drawn, layoutOf(requestOf(graph, drawn, direction))) };
}

const diamond = definition({ top: [], left: ["top"], right: ["top"], join: ["left", "right"] });

function withStatuses(written: Parameters<typeof graphOf>[0], statuses: Record<string, string>): JobState {
  const state = fresh(graphOf(written));
  for (const [id, status] of Object.entries(statuses)) {
    const number = state.graph.index.get(id) ?? -1;
    state.nodes[number] = { ...state.nodes[number], status } as JobState["nodes"][number];
  }
  return state;
}

describe("the camera", () => {
  it("shows the whole, in the middle", () => {
    for (const box of [
      { x: 0, y: 0, width: 4000, height: 300 },
      { x: 50, y: 900, width: 10, height: 9000 },
    ]) {
      const camera = fitted(box, screen);
      const view = seen(camera, screen);
      expect(contains(view, box)).toBe(true);
      expect(view.x + view.width / 2).toBeCloseTo(box.x + box.width / 2);
    }
  });

  it("keeps what is under the pointer where it is when it comes nearer", () => {
    const before = { x: 30, y: -20, scale: 0.5 };
    const after = zoomed(before, 1.7, 400, 250);

    expect(after.scale).toBeCloseTo(0.85);
    expect((400 - after.x) / after.scale).toBeCloseTo((400 - before.x) / before.scale);
    expect((250 - after.y) / after.scale).toBeCloseTo((250 - before.y) / before.scale);
  });

  it("steps back only a little further than to see the whole", () => {
    const drawing = { width: 28_000, height: 7_000 };
    const whole = fitted({ x: 0, y: 0, ...drawing }, screen);
    let camera = whole;
    for (let step = 0; step < 50; step++) {
      camera = zoomed(camera, 0.8, 500, 300, leastScale(drawing, screen));
    }

    expect(camera.scale / whole.scale).toBeCloseTo(0.6);
  });

  it("does not lose the drawing, however far it is pushed", () => {
    const drawing = { width: 800, height: 400 };
    for (const [x, y] of [
      [99_999, 99_999],
      [-99_999, -99_999],
    ] as const) {
      const camera = kept({ x, y, scale: 1 }, drawing, screen);
      const view = seen(camera, screen);
      expect(view.x < drawing.width && view.x + view.width > 0).toBe(true);
      expect(view.y < drawing.height && view.y + view.height > 0).toBe(true);
    }
  });

  it("glides from one place to another without leaving either", () => {
    const [from, to] = [fitted({ x: 0, y: 0, width: 9000, height: 900 }, screen), centred(box(500, 500), screen, 1)];

    expect(between(from, to, 0)).toEqual(from);
    const last = between(from, to, 1);
    expect([last.x, last.y, last.scale].map(Math.round)).toEqual([to.x, to.y, to.scale].map(Math.round));
  });
});

function box(x: number, y: number) {
  return { x, y, width: 100, height: 50 };
}

describe("cards", () => {
  it("are those in sight, and none from afar or when they were too many", () => {
    const { layout } = laidOut(mesh(40, 40));
    const near = inSight(layout, { x: 0, y: 0, scale: 1 }, screen);
    const far = inSight(layout, fitted({ x: 0, y: 0, width: layout.width, height: layout.height }, screen), screen);

    expect(near.cards.length).toBeGreaterThan(5);
    expect(near.cards.length).toBeLessThan(120);
    expect(near.isFar).toBe(false);
    expect([far.cards, far.isFar]).toEqual([[], true]);
    expect(inSight(layout, { x: 0, y: 0, scale: 0.3 }, { width: 3000, height: 2000 }).cards).toEqual([]);
  });

  it("are found under the pointer, members of a group above its frame", () => {
    const { layout, drawn } = laidOut(fan(100), "right", true);
    const frame = drawn.units.findIndex((unit) => unit.inside >= 0);
    const member = boxOf(layout, drawn.units[frame]?.inside ?? -1);

    expect(unitAt(layout, member.x + 5, member.y + 5)).toBe(drawn.units[frame]?.inside);
    expect(unitAt(layout, boxOf(layout, frame).x + 2, boxOf(layout, frame).y + 2)).toBe(frame);
    expect(unitAt(layout, -50, -50)).toBe(-1);
  });
});

describe("edges", () => {
  it("lead from the side of one unit to the side of the next", () => {
    for (const direction of ["right", "down"] as const) {
      const { layout } = laidOut(diamond, direction);
      for (let edge = 0; edge < edgeCount(layout); edge++) {
        const points: [number, number][] = [];
        const pen = {
          moveTo: (x: number, y: number) => points.push([x, y]),
          lineTo: (x: number, y: number) => points.push([x, y]),
          bezierCurveTo: (_1: number, _2: number, _3: number, _4: number, x: number, y: number) => points.push([x, y]),
        };
        traceEdge(pen, layout, edge);
        const [x1, y1, x2, y2] = endsOf(layout, edge);
        expect([points[0], points.at(-1)]).toEqual([
          [x1, y1],
          [x2, y2],
        ]);
        expect(direction === "right" ? x1 < x2 : y1 < y2).toBe(true);
      }
    }
  });

  it("are left out when no part of them is in sight", () => {
    const { layout } = laidOut();

    expect(mayTouch(layout, 0, { x: -500, y: -500, width: 400, height: 400 })).toBe(false);
    expect(mayTouch(layout, 0, { x: 0, y: 0, width: layout.width, height: layout.height })).toBe(true);
  });

  it("are lit by what they come from, flow into what runs, and tell of failures and skips", () => {
    const look = (from: string, to: string) => edgeLook(toneNumber(from), toneNumber(to));

    expect(look("completed", "pending")).toBe("lit");
    expect(look("completed", "running")).toBe("flowing");
    expect(look("running", "pending")).toBe("idle");
    expect(look("failed", "failed")).toBe("failed");
    expect(look("failed", "completed")).toBe("lit");
    expect(look("completed", "skipped")).toBe("skipped");
    expect(edgeLook(255, 255)).toBe("idle");
  });

  it("flow only while there are few enough to follow", () => {
    const few = laidOut();
    const state = withStatuses(diamond, { top: "completed", left: "running", right: "running" });
    expect(flowingEdges(few.layout, tonesOf(few.drawn, state)).length).toBe(2);

    const many: Layout = laidOut(mesh(2, 200)).layout;
    const tones = Uint8Array.from({ length: 400 }, (_, unit) => toneNumber(unit < 200 ? "completed" : "running"));
    expect(flowingEdges(many, tones)).toEqual([]);
  });
});

describe("the states of units", () => {
  it("of a group are those of its worst member, or of what is under way", () => {
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

  it("are counted and told in a sentence", () => {
    const state = withStatuses(diamond, { top: "completed", left: "completed", right: "failed" });

    expect(summaryOf(state)).toBe("4 nodes: 1 pending, 2 completed, 1 failed");
    expect(countsOf(state, [0, 3])).toEqual([1, 0, 0, 0, 1, 0, 0, 0]);
  });
});

type Four = [number, number, number, number];

describe("the arrow keys", () => {
  it.each([
    ["right", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"],
    ["down", "ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft"],
  ] as const)("lead along edges and to those beside, in a graph to the %s", (direction, on, back, after, before) => {
    const { graph, drawn, layout } = laidOut(diamond, direction);
    const [top, left, right, join] = ["top", "left", "right", "join"].map((id) => graph.index.get(id) ?? -1) as Four;
    const go = (unit: number, ...ways: Way[]) => ways.reduce((at, way) => next(layout, drawn, at, way), unit);

    expect([left, right]).toContain(go(top, on));
    expect(go(left, after)).toBe(right);
    expect(go(right, before)).toBe(left);
    expect(go(top, on, on)).toBe(join);
    expect(go(join, back, back)).toBe(top);
  });

  it("stay where there is no further, and lead into an opened group", () => {
    const { drawn, layout } = laidOut(fan(100), "right", true);
    const member = next(layout, drawn, 0, "ArrowRight");

    expect(next(layout, drawn, 0, "ArrowLeft")).toBe(0);
    expect(drawn.units[member]?.id).toMatch(/^item_/);
    expect(drawn.units[next(layout, drawn, member, "ArrowRight")]?.id).toBe("last");
  });
});

describe("names", () => {
  it("are found by any part of them, the whole and the beginnings first", () => {
    const graph = graphOf(definition({ reload: [], load_users: [], load: [], download: [], other: [] }));

    expect(found(graph, " LOAD ", 8)).toEqual(["load", "load_users", "reload", "download"]);
    expect(found(graph, "load", 2)).toEqual(["load", "load_users"]);
    expect(found(graph, "", 8)).toEqual([]);
  });

  it("of groups tell how many there are of what", () => {
    const { graph, drawn } = laidOut(fan(1_000));

    expect(drawn.units.map((unit) => nameOf(graph, unit))).toEqual(["first", "1,000 × sleep", "last"]);
  });

  it("may break after the signs that join words, and are the same to the eye", () => {
    expect(breakable("load_users-eu").split("\u200b")).toEqual(["load_", "users-", "eu"]);
  });
});
