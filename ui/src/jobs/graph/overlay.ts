// Paints what changes with every frame over the scene: animated edges, edges of the selection, and outlines.

import { type Context, edgeStroke, strokeEdges } from "./painter";
import { boxOf, type Scene } from "./scene";
import { TONES } from "./tones";
import type { Viewport } from "./viewport";

/** Dashes look like dots below this scale. */
const DASHES_SCALE_MIN = 0.15;
const DASH = [6, 8];
const DASH_MS_PER_PIXEL = 45;
const OUTLINE_GAP_PIXELS = 4;
const OUTLINE_WIDTH_PIXELS = 2.5;
const OUTLINE_RADIUS = 9;
const WAITING = TONES.indexOf("waiting");

interface OverlayOptions {
  /** Null shows the dashes without motion. */
  animationTime: number | null;
  /** Cards have their own outline. */
  hasCards: boolean;
}

export function hasAnimatedEdges(scene: Scene, viewport: Viewport): boolean {
  return scene.activeEdges.length > 0 && viewport.scale >= DASHES_SCALE_MIN;
}

export function paintOverlay(context: Context, scene: Scene, viewport: Viewport, options: OverlayOptions): void {
  const { colors, selected, selectedEdges, activeEdges } = scene;
  if (selectedEdges.length > 0) {
    strokeEdges(context, scene, viewport, selectedEdges, { color: colors.accent, width: 2.4, alpha: 1, dash: [] });
  }
  if (hasAnimatedEdges(scene, viewport)) {
    const length = DASH.reduce((sum, part) => sum + part, 0);
    context.lineDashOffset = options.animationTime === null ? 0 : -(options.animationTime / DASH_MS_PER_PIXEL) % length;
    strokeEdges(context, scene, viewport, activeEdges, { ...edgeStroke(scene, "active"), alpha: 1, dash: DASH });
    context.lineDashOffset = 0;
  }
  if (!options.hasCards && !scene.isFrame[selected]) {
    paintOutline(context, scene, viewport, selected, colors.accent);
  }
  for (const unit of scene.highlighted) {
    paintOutline(context, scene, viewport, unit, colors.tones[WAITING] ?? colors.accent);
  }
}

function paintOutline(context: Context, scene: Scene, { scale }: Viewport, unit: number, color: string): void {
  if (unit < 0) {
    return;
  }
  const { x, y, width, height } = boxOf(scene.layout, unit);
  const gap = OUTLINE_GAP_PIXELS / scale;
  context.strokeStyle = color;
  context.lineWidth = OUTLINE_WIDTH_PIXELS / scale;
  context.beginPath();
  context.roundRect(x - gap, y - gap, width + 2 * gap, height + 2 * gap, OUTLINE_RADIUS + gap);
  context.stroke();
}
