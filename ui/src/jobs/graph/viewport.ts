// Geometry of the viewport: which part of the drawing is visible, and at which scale.

export interface Viewport {
  /** Position of the drawing's origin on the screen. */
  x: number;
  y: number;
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

export interface Box extends Size {
  x: number;
  y: number;
}

const SCALE_MAX = 1.8;
const SCALE_MIN = 0.004;
/** Zooming out ends when the drawing fills this share of the screen. */
const ZOOM_OUT_SHARE = 0.6;
const FIT_SCALE_MAX = 1.15;
/** Margins of a fitted drawing. The search field and buttons cover the top. */
const MARGIN_X_PIXELS = 36;
const MARGIN_Y_PIXELS = 54;
/** This much of the drawing stays visible when it is moved. */
const VISIBLE_PIXELS_MIN = 70;

/** Center a box on the screen, as large as possible. */
export function fitBox(box: Box, screen: Size): Viewport {
  const available = {
    width: Math.max(40, screen.width - 2 * MARGIN_X_PIXELS),
    height: Math.max(40, screen.height - 2 * MARGIN_Y_PIXELS),
  };
  const scale = clampScale(
    Math.min(available.width / Math.max(1, box.width), available.height / Math.max(1, box.height), FIT_SCALE_MAX),
  );
  return centerBox(box, screen, scale);
}

export function centerBox(box: Box, screen: Size, scale: number): Viewport {
  return {
    x: screen.width / 2 - (box.x + box.width / 2) * scale,
    y: screen.height / 2 - (box.y + box.height / 2) * scale,
    scale,
  };
}

/** Zoom by a factor and keep the point (x, y) of the screen in place. */
export function zoomAt(viewport: Viewport, factor: number, x: number, y: number, scaleMin = SCALE_MIN): Viewport {
  const scale = Math.max(Math.min(scaleMin, viewport.scale), clampScale(viewport.scale * factor));
  const ratio = scale / viewport.scale;
  return { x: x - (x - viewport.x) * ratio, y: y - (y - viewport.y) * ratio, scale };
}

/** The smallest useful scale of a drawing. */
export function minScale(drawing: Size, screen: Size): number {
  return ZOOM_OUT_SHARE * Math.min(1, fitBox({ x: 0, y: 0, ...drawing }, screen).scale);
}

/** Move the viewport so that a part of the drawing stays visible. */
export function keepVisible(viewport: Viewport, drawing: Size, screen: Size): Viewport {
  const { scale } = viewport;
  const clamp = (offset: number, drawingSize: number, screenSize: number) =>
    Math.min(Math.max(offset, VISIBLE_PIXELS_MIN - drawingSize * scale), screenSize - VISIBLE_PIXELS_MIN);
  return {
    x: clamp(viewport.x, drawing.width, screen.width),
    y: clamp(viewport.y, drawing.height, screen.height),
    scale,
  };
}

/** The visible part of the drawing, extended by a margin in pixels. */
export function visibleBox(viewport: Viewport, screen: Size, margin = 0): Box {
  return {
    x: (-margin - viewport.x) / viewport.scale,
    y: (-margin - viewport.y) / viewport.scale,
    width: (screen.width + 2 * margin) / viewport.scale,
    height: (screen.height + 2 * margin) / viewport.scale,
  };
}

export function contains(outer: Box, inner: Box): boolean {
  return (
    inner.x >= outer.x &&
    inner.y >= outer.y &&
    inner.x + inner.width <= outer.x + outer.width &&
    inner.y + inner.height <= outer.y + outer.height
  );
}

/** Interpolate between two viewports. The scale changes by equal factors, which looks even. */
export function interpolate(from: Viewport, to: Viewport, progress: number): Viewport {
  const scale = from.scale * (to.scale / from.scale) ** progress;
  const share = to.scale === from.scale ? progress : (scale - from.scale) / (to.scale - from.scale);
  return { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share, scale };
}

function clampScale(scale: number): number {
  return Math.min(SCALE_MAX, Math.max(SCALE_MIN, scale));
}
