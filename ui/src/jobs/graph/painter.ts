// Paints a scene on a canvas in short steps, so that a large scene can be painted over several frames.

import { iconOf } from "./canvas_icons";
import { edgeCount, mayIntersect, traceArrow, traceEdge } from "./edges";
import { boxOf, isInBox, type Scene, styleOf } from "./scene";
import { type EdgeStyle, NO_TONE, TONES } from "./tones";
import { CARD_HEIGHT } from "./unit_sizes";
import { type Size, type Viewport, visibleBox } from "./viewport";

export type Context = CanvasRenderingContext2D;

interface Stroke {
  color: string;
  width: number;
  alpha: number;
  dash: number[];
}

const EDGES_PER_STEP = 120;
const EDGES_PER_STYLE_MAX = 3_000;
/** More edges are drawn with a lower opacity. */
const EDGES_OPAQUE_MAX = 150;
const OPACITY_MIN = 0.25;
const UNITS_PER_STEP = 300;
/** Curves and arrows look like lines below these scales. */
const CURVES_SCALE_MIN = 0.09;
const ARROWS_SCALE_MIN = 0.3;
/** Minimum heights on the screen for an icon and a name. */
const ICON_PIXELS_MIN = 5;
const NAME_PIXELS_MIN = 15;
const RADIUS = 9;
const FONT = "ui-sans-serif, system-ui, sans-serif";

/** In painting order. */
const EDGE_STYLES: readonly EdgeStyle[] = ["idle", "skipped", "failed", "completed", "active"];

/** Paint edges and units, yielding after short steps. Cards cover the units that they show. */
export function* paintScene(context: Context, scene: Scene, viewport: Viewport, screen: Size) {
  yield* paintEdges(context, scene, viewport, screen);
  yield* paintUnits(context, scene, viewport, screen);
}

export function edgeStroke(scene: Scene, style: EdgeStyle): Stroke {
  const { colors } = scene;
  const tone = (name: (typeof TONES)[number]) => colors.tones[TONES.indexOf(name)] ?? colors.muted;
  switch (style) {
    case "completed":
      return { color: tone("completed"), width: 1.8, alpha: 0.75, dash: [] };
    case "active":
      return { color: tone("running"), width: 2, alpha: 0.35, dash: [] };
    case "failed":
      return { color: tone("failed"), width: 1.6, alpha: 0.7, dash: [] };
    case "skipped":
      return { color: tone("skipped"), width: 1, alpha: 0.6, dash: [3, 4] };
    default:
      return { color: colors.muted, width: 1.5, alpha: 0.42, dash: [] };
  }
}

function* paintEdges(context: Context, scene: Scene, viewport: Viewport, screen: Size) {
  const { layout, tones } = scene;
  const box = visibleBox(viewport, screen, 8);
  const byStyle = new Map<EdgeStyle, number[]>(EDGE_STYLES.map((style) => [style, []]));
  for (let edge = 0; edge < edgeCount(layout); edge++) {
    if (mayIntersect(layout, edge, box)) {
      byStyle.get(styleOf(layout, tones, edge))?.push(edge);
    }
  }
  yield;
  for (const [style, allEdges] of byStyle) {
    const edges = sample(allEdges);
    const stroke = edgeStroke(scene, style);
    // Many overlapping lines would be too dark.
    stroke.alpha *= Math.max(OPACITY_MIN, Math.min(1, Math.sqrt(EDGES_OPAQUE_MAX / edges.length)));
    for (let first = 0; first < edges.length; first += EDGES_PER_STEP) {
      strokeEdges(context, scene, viewport, edges.slice(first, first + EDGES_PER_STEP), stroke);
      yield;
    }
  }
}

/** Return evenly distributed edges if there are very many: more would only darken the drawing. */
function sample(edges: number[]): number[] {
  const step = Math.ceil(edges.length / EDGES_PER_STYLE_MAX);
  return step <= 1 ? edges : edges.filter((_, index) => index % step === 0);
}

export function strokeEdges(context: Context, scene: Scene, viewport: Viewport, edges: number[], stroke: Stroke): void {
  const { scale } = viewport;
  context.globalAlpha = stroke.alpha;
  context.strokeStyle = context.fillStyle = stroke.color;
  // Scaled with the drawing, within limits.
  context.lineWidth = Math.min(stroke.width, Math.max(0.9, stroke.width * scale)) / scale;
  context.setLineDash(stroke.dash);
  context.beginPath();
  for (const edge of edges) {
    traceEdge(context, scene.layout, edge, scale < CURVES_SCALE_MIN);
  }
  context.stroke();
  context.setLineDash([]);
  if (scale >= ARROWS_SCALE_MIN) {
    context.beginPath();
    for (const edge of edges) {
      traceArrow(context, scene.layout, edge);
    }
    context.fill();
  }
  context.globalAlpha = 1;
}

function* paintUnits(context: Context, scene: Scene, viewport: Viewport, screen: Size) {
  const { layout, tones } = scene;
  const box = visibleBox(viewport, screen, 8);
  const byTone = new Map<number, number[]>();
  for (let unit = 0; unit < layout.x.length; unit++) {
    if (scene.isFrame[unit]) {
      paintFrame(context, scene, viewport, unit);
    } else if (isInBox(layout, unit, box)) {
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
    for (let first = 0; first < units.length; first += UNITS_PER_STEP) {
      paintTone(context, scene, viewport, tone, units.slice(first, first + UNITS_PER_STEP));
      yield;
    }
  }
}

function paintFrame(context: Context, scene: Scene, { scale }: Viewport, unit: number): void {
  const { x, y, width, height } = boxOf(scene.layout, unit);
  context.globalAlpha = 0.5;
  context.strokeStyle = scene.colors.accent;
  context.lineWidth = 1 / scale;
  context.beginPath();
  context.roundRect(x, y, width, height, RADIUS);
  context.stroke();
  context.globalAlpha = 1;
}

function paintTone(context: Context, scene: Scene, { scale }: Viewport, tone: number, units: number[]): void {
  const { layout, colors } = scene;
  const color = tone === NO_TONE ? colors.muted : (colors.tones[tone] ?? colors.muted);
  const pixels = (layout.heights[units[0] as number] as number) * scale;
  context.beginPath();
  for (const unit of units) {
    const { x, y, width, height } = boxOf(layout, unit);
    if (pixels < ICON_PIXELS_MIN) {
      context.rect(x, y, width, height);
    } else {
      // The border stays within the box, where a card covers it.
      context.roundRect(x + 1, y + 1, width - 2, height - 2, height < CARD_HEIGHT ? height / 2 : RADIUS);
    }
  }
  if (pixels < ICON_PIXELS_MIN) {
    context.globalAlpha = tone === NO_TONE || TONES[tone] === "pending" ? 0.55 : 0.95;
    context.fillStyle = color;
    context.fill();
    context.globalAlpha = 1;
    return;
  }
  context.fillStyle = colors.surface;
  context.fill();
  context.globalAlpha = tone === NO_TONE ? 0.04 : 0.16;
  context.fillStyle = color;
  context.fill();
  context.globalAlpha = TONES[tone] === "pending" || tone === NO_TONE ? 0.5 : 0.9;
  context.strokeStyle = color;
  context.lineWidth = 1 / scale;
  context.stroke();
  context.globalAlpha = 1;
  paintIconsAndNames(context, scene, scale, tone, units, color);
}

function paintIconsAndNames(
  context: Context,
  scene: Scene,
  scale: number,
  tone: number,
  units: number[],
  color: string,
): void {
  const { layout, colors, names } = scene;
  const icon = iconOf(tone);
  const hasName = (layout.heights[units[0] as number] as number) * scale >= NAME_PIXELS_MIN;
  context.lineWidth = Math.max(2.6, 1.1 / scale);
  context.strokeStyle = context.fillStyle = color;
  context.lineCap = context.lineJoin = "round";
  context.beginPath();
  for (const unit of units) {
    const { x, y, width, height } = boxOf(layout, unit);
    icon?.trace(context, hasName ? x + 24 : x + width / 2, y + height / 2, Math.min(13, height / 3));
  }
  if (icon?.isFilled) {
    context.fill();
  } else {
    context.stroke();
  }
  if (!hasName) {
    return;
  }
  context.fillStyle = colors.ink;
  context.textBaseline = "middle";
  context.font = `600 22px ${FONT}`;
  for (const unit of units) {
    const { x, y, width, height } = boxOf(layout, unit);
    const left = icon ? 46 : 16;
    const name = names[unit] ?? "";
    const maxWidth = width - left - 8;
    context.fillText(truncate(name, Math.floor(maxWidth / 12.2)), x + left, y + height / 2 + 1, maxWidth);
  }
}

function truncate(text: string, characters: number): string {
  return text.length <= characters ? text : `${text.slice(0, Math.max(1, characters - 1))}…`;
}
