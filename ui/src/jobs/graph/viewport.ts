// Which part of a drawing is looked at, and how near.

export interface Camera {
  /** Where the drawing's origin is on the screen. */
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
/** One may step back so far that the whole takes this share of what it could. */
const STEP_BACK_SHARE = 0.6;
const FIT_SCALE_MAX = 1.15;
/** What stays free around the whole; the search and the buttons lie above it. */
const SIDE_PIXELS = 36;
const HEAD_PIXELS = 54;
/** So much of the drawing stays in sight, whichever way it is pushed. */
const KEPT_PIXELS = 70;

export function fitted(box: Box, screen: Size): Camera {
  const room = {
    width: Math.max(40, screen.width - 2 * SIDE_PIXELS),
    height: Math.max(40, screen.height - 2 * HEAD_PIXELS),
  };
  const scale = clamped(
    Math.min(room.width / Math.max(1, box.width), room.height / Math.max(1, box.height), FIT_SCALE_MAX),
  );
  return {
    x: (screen.width - box.width * scale) / 2 - box.x * scale,
    y: (screen.height - box.height * scale) / 2 - box.y * scale,
    scale,
  };
}

/** Nearer or farther, with what is at this place of the screen kept there. */
export function zoomed(camera: Camera, factor: number, x: number, y: number, least = SCALE_MIN): Camera {
  const scale = Math.max(Math.min(least, camera.scale), clamped(camera.scale * factor));
  const ratio = scale / camera.scale;
  return { x: x - (x - camera.x) * ratio, y: y - (y - camera.y) * ratio, scale };
}

/** The scale from which on it is not worth while to step back further. */
export function leastScale(drawing: Size, screen: Size): number {
  return STEP_BACK_SHARE * Math.min(1, fitted({ x: 0, y: 0, ...drawing }, screen).scale);
}

/** Moved back so far that the drawing does not get lost. */
export function kept(camera: Camera, drawing: Size, screen: Size): Camera {
  const { scale } = camera;
  const within = (at: number, drawn: number, seen: number) =>
    Math.min(Math.max(at, KEPT_PIXELS - drawn * scale), seen - KEPT_PIXELS);
  return {
    x: within(camera.x, drawing.width, screen.width),
    y: within(camera.y, drawing.height, screen.height),
    scale,
  };
}

/** The part of the drawing that is on the screen, and so many pixels around it. */
export function seen(camera: Camera, screen: Size, margin = 0): Box {
  return {
    x: (-margin - camera.x) / camera.scale,
    y: (-margin - camera.y) / camera.scale,
    width: (screen.width + 2 * margin) / camera.scale,
    height: (screen.height + 2 * margin) / camera.scale,
  };
}

export function centred(box: Box, screen: Size, scale: number): Camera {
  return {
    x: screen.width / 2 - (box.x + box.width / 2) * scale,
    y: screen.height / 2 - (box.y + box.height / 2) * scale,
    scale,
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

/** Between two cameras; the scale changes by equal factors, so that the way looks even. */
export function between(from: Camera, to: Camera, share: number): Camera {
  const scale = from.scale * (to.scale / from.scale) ** share;
  const along = to.scale === from.scale ? share : (scale - from.scale) / (to.scale - from.scale);
  return { x: from.x + (to.x - from.x) * along, y: from.y + (to.y - from.y) * along, scale };
}

function clamped(scale: number): number {
  return Math.min(SCALE_MAX, Math.max(SCALE_MIN, scale));
}
