// Paints a scene on a canvas, step by step: a large one is painted over several frames.

import { markOf } from "./canvas_icons";
import { edgeCount, mayTouch, traceArrow, traceEdge } from "./edges";
import { boxOf, isIn, lookOf, type Scene } from "./scene";
import { type EdgeLook, PLAIN, TONES } from "./tones";
import { CARD_HEIGHT } from "./unit_sizes";
import { type Camera, type Size, seen } from "./viewport";

export type Brush = CanvasRenderingContext2D;

interface Stroke {
  colour: string;
  width: number;
  alpha: number;
  dash: number[];
}

const EDGES_A_STEP = 120;
const EDGES_A_LOOK_MAX = 3_000;
/** So many edges in sight are drawn in full strength. */
const EDGES_STRONG_MAX = 150;
const FAINTEST = 0.25;
const UNITS_A_STEP = 300;
/** Below, curves and arrows can not be told from lines. */
const CURVES_SCALE_MIN = 0.09;
const ARROWS_SCALE_MIN = 0.3;
/** Heights on the screen from which a unit has a mark, and its name. */
const MARK_PIXELS_MIN = 5;
const NAME_PIXELS_MIN = 15;
const RADIUS = 9;
const FONT = "ui-sans-serif, system-ui, sans-serif";

/** Later ones lie above. */
const LOOKS: readonly EdgeLook[] = ["idle", "skipped", "failed", "lit", "flowing"];

/** Each step is short. Cards of the page cover the units that they show. */
export function* painted(brush: Brush, scene: Scene, camera: Camera, screen: Size) {
  yield* paintEdges(brush, scene, camera, screen);
  yield* paintUnits(brush, scene, camera, screen);
}

export function strokeOf(scene: Scene, look: EdgeLook): Stroke {
  const { colours } = scene;
  const tone = (name: (typeof TONES)[number]) => colours.tones[TONES.indexOf(name)] ?? colours.muted;
  switch (look) {
    case "lit":
      return { colour: tone("completed"), width: 1.8, alpha: 0.75, dash: [] };
    case "flowing":
      return { colour: tone("running"), width: 2, alpha: 0.35, dash: [] };
    case "failed":
      return { colour: tone("failed"), width: 1.6, alpha: 0.7, dash: [] };
    case "skipped":
      return { colour: tone("skipped"), width: 1, alpha: 0.6, dash: [3, 4] };
    default:
      return { colour: colours.muted, width: 1.5, alpha: 0.42, dash: [] };
  }
}

function* paintEdges(brush: Brush, scene: Scene, camera: Camera, screen: Size) {
  const { layout, tones } = scene;
  const box = seen(camera, screen, 8);
  const byLook = new Map<EdgeLook, number[]>(LOOKS.map((look) => [look, []]));
  for (let edge = 0; edge < edgeCount(layout); edge++) {
    if (mayTouch(layout, edge, box)) {
      byLook.get(lookOf(layout, tones, edge))?.push(edge);
    }
  }
  yield;
  for (const [look, found] of byLook) {
    const edges = sampled(found);
    const stroke = strokeOf(scene, look);
    // Many lines together are dark enough.
    stroke.alpha *= Math.max(FAINTEST, Math.min(1, Math.sqrt(EDGES_STRONG_MAX / edges.length)));
    for (let first = 0; first < edges.length; first += EDGES_A_STEP) {
      strokeEdges(brush, scene, camera, edges.slice(first, first + EDGES_A_STEP), stroke);
      yield;
    }
  }
}

/** Of very many edges some, spread over all: more of them would only make the picture darker. */
function sampled(edges: number[]): number[] {
  const step = Math.ceil(edges.length / EDGES_A_LOOK_MAX);
  return step <= 1 ? edges : edges.filter((_, place) => place % step === 0);
}

export function strokeEdges(brush: Brush, scene: Scene, camera: Camera, edges: number[], stroke: Stroke): void {
  const { scale } = camera;
  brush.globalAlpha = stroke.alpha;
  brush.strokeStyle = brush.fillStyle = stroke.colour;
  // As wide on the screen as in the drawing, but neither a hair nor a bar.
  brush.lineWidth = Math.min(stroke.width, Math.max(0.9, stroke.width * scale)) / scale;
  brush.setLineDash(stroke.dash);
  brush.beginPath();
  for (const edge of edges) {
    traceEdge(brush, scene.layout, edge, scale < CURVES_SCALE_MIN);
  }
  brush.stroke();
  brush.setLineDash([]);
  if (scale >= ARROWS_SCALE_MIN) {
    brush.beginPath();
    for (const edge of edges) {
      traceArrow(brush, scene.layout, edge);
    }
    brush.fill();
  }
  brush.globalAlpha = 1;
}

function* paintUnits(brush: Brush, scene: Scene, camera: Camera, screen: Size) {
  const { layout, tones } = scene;
  const box = seen(camera, screen, 8);
  const byTone = new Map<number, number[]>();
  for (let unit = 0; unit < layout.x.length; unit++) {
    if (scene.isFrame[unit]) {
      paintFrame(brush, scene, camera, unit);
    } else if (isIn(layout, unit, box)) {
      const tone = tones[unit] as number;
      const units = byTone.get(tone);
      if (units) {
        units.push(unit);
      } else {
        byTone.set(tone, [unit]);
      }
    }
  }
  for (const [tone, units] of byTone) {
    for (let first = 0; first < units.length; first += UNITS_A_STEP) {
      paintTone(brush, scene, camera, tone, units.slice(first, first + UNITS_A_STEP));
      yield;
    }
  }
}

function paintFrame(brush: Brush, scene: Scene, { scale }: Camera, unit: number): void {
  const { x, y, width, height } = boxOf(scene.layout, unit);
  brush.globalAlpha = 0.5;
  brush.strokeStyle = scene.colours.accent;
  brush.lineWidth = 1 / scale;
  brush.beginPath();
  brush.roundRect(x, y, width, height, RADIUS);
  brush.stroke();
  brush.globalAlpha = 1;
}

function paintTone(brush: Brush, scene: Scene, { scale }: Camera, tone: number, units: number[]): void {
  const { layout, colours } = scene;
  const colour = tone === PLAIN ? colours.muted : (colours.tones[tone] ?? colours.muted);
  const pixels = (layout.heights[units[0] as number] as number) * scale;
  brush.beginPath();
  for (const unit of units) {
    const { x, y, width, height } = boxOf(layout, unit);
    if (pixels < MARK_PIXELS_MIN) {
      brush.rect(x, y, width, height);
    } else {
      // The line stays within the box, where a card covers it.
      brush.roundRect(x + 1, y + 1, width - 2, height - 2, height < CARD_HEIGHT ? height / 2 : RADIUS);
    }
  }
  if (pixels < MARK_PIXELS_MIN) {
    brush.globalAlpha = tone === PLAIN || TONES[tone] === "pending" ? 0.55 : 0.95;
    brush.fillStyle = colour;
    brush.fill();
    brush.globalAlpha = 1;
    return;
  }
  brush.fillStyle = colours.surface;
  brush.fill();
  brush.globalAlpha = tone === PLAIN ? 0.04 : 0.16;
  brush.fillStyle = colour;
  brush.fill();
  brush.globalAlpha = TONES[tone] === "pending" || tone === PLAIN ? 0.5 : 0.9;
  brush.strokeStyle = colour;
  brush.lineWidth = 1 / scale;
  brush.stroke();
  brush.globalAlpha = 1;
  paintMarks(brush, scene, scale, tone, units, colour);
}

function paintMarks(brush: Brush, scene: Scene, scale: number, tone: number, units: number[], colour: string): void {
  const { layout, colours, names } = scene;
  const mark = markOf(tone);
  const hasName = (layout.heights[units[0] as number] as number) * scale >= NAME_PIXELS_MIN;
  brush.lineWidth = Math.max(2.6, 1.1 / scale);
  brush.strokeStyle = brush.fillStyle = colour;
  brush.lineCap = brush.lineJoin = "round";
  brush.beginPath();
  for (const unit of units) {
    const { x, y, width, height } = boxOf(layout, unit);
    mark?.trace(brush, hasName ? x + 24 : x + width / 2, y + height / 2, Math.min(13, height / 3));
  }
  if (mark?.isFilled) {
    brush.fill();
  } else {
    brush.stroke();
  }
  if (!hasName) {
    return;
  }
  brush.fillStyle = colours.ink;
  brush.textBaseline = "middle";
  brush.font = `600 22px ${FONT}`;
  for (const unit of units) {
    const { x, y, width, height } = boxOf(layout, unit);
    const left = mark ? 46 : 16;
    const name = names[unit] ?? "";
    const room = width - left - 8;
    brush.fillText(cut(name, Math.floor(room / 12.2)), x + left, y + height / 2 + 1, room);
  }
}

/** The beginning of a text that has room. */
export function cut(text: string, characters: number): string {
  return text.length <= characters ? text : `${text.slice(0, Math.max(1, characters - 1))}…`;
}
