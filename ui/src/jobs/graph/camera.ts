// The camera over a drawing: moves, zooms and animates the viewport.

import {
  type Box,
  centerBox,
  contains,
  fitBox,
  interpolate,
  keepVisible,
  minScale,
  type Size,
  type Viewport,
  visibleBox,
  zoomAt,
} from "./viewport";

const ANIMATION_MS = 260;
/** Names are readable from this scale on. */
const READABLE_SCALE = 0.3;
const REVEAL_MARGIN_PIXELS = 12;

export class Camera {
  viewport: Viewport = { x: 0, y: 0, scale: 1 };
  screen: Size = { width: 0, height: 0 };
  movedAt = 0;
  readonly prefersReducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

  private drawing: Size | null = null;
  private animation: { from: Viewport; to: Viewport; startedAt: number } | null = null;
  /** Whether the whole drawing is shown, which a resize then preserves. */
  private isFitted = false;
  private readonly onMove: () => void;
  private readonly requestFrame: () => void;

  constructor(onMove: () => void, requestFrame: () => void) {
    this.onMove = onMove;
    this.requestFrame = requestFrame;
  }

  get isAnimating(): boolean {
    return this.animation !== null;
  }

  setDrawing(drawing: Size): void {
    this.drawing = drawing;
  }

  resize(screen: Size): void {
    this.screen = screen;
    if (!this.isFitted || this.drawing === null) {
      return;
    }
    const { scale } = fitBox(this.wholeDrawing(this.drawing), screen);
    // Readable names stay readable when a panel opens beside the graph.
    if (scale >= Math.min(this.viewport.scale, READABLE_SCALE)) {
      this.fit(false);
    }
  }

  jumpTo(viewport: Viewport): void {
    this.animation = null;
    this.isFitted = false;
    this.move(viewport);
  }

  /** Move to a viewport smoothly, or at once if the user prefers reduced motion. */
  animateTo(viewport: Viewport): void {
    if (this.prefersReducedMotion.matches) {
      this.jumpTo(viewport);
      return;
    }
    this.isFitted = false;
    this.animation = { from: this.viewport, to: viewport, startedAt: performance.now() };
    this.requestFrame();
  }

  /** Show a box, or the whole drawing. */
  fit(isAnimated: boolean, box?: Box): void {
    if (this.drawing === null) {
      return;
    }
    const viewport = fitBox(box ?? this.wholeDrawing(this.drawing), this.screen);
    if (isAnimated) {
      this.animateTo(viewport);
    } else {
      this.jumpTo(viewport);
    }
    this.isFitted = box === undefined;
  }

  zoom(factor: number, x = this.screen.width / 2, y = this.screen.height / 2): void {
    if (this.drawing !== null) {
      this.jumpTo(zoomAt(this.viewport, factor, x, y, minScale(this.drawing, this.screen)));
    }
  }

  pan(dx: number, dy: number): void {
    this.jumpTo({ ...this.viewport, x: this.viewport.x + dx, y: this.viewport.y + dy });
  }

  /** Move to a box unless it is visible at the given scale. */
  reveal(box: Box, scaleMin = 0): void {
    const target = this.animation?.to ?? this.viewport;
    if (target.scale < scaleMin || !contains(visibleBox(target, this.screen, -REVEAL_MARGIN_PIXELS), box)) {
      this.animateTo(centerBox(box, this.screen, Math.max(target.scale, scaleMin)));
    }
  }

  /** Advance the animation to the time of the current frame. */
  advance(now: number): void {
    if (this.animation === null) {
      return;
    }
    const { from, to, startedAt } = this.animation;
    const progress = Math.min(1, Math.max(0, (now - startedAt) / ANIMATION_MS));
    if (progress === 1) {
      this.animation = null;
    }
    this.move(interpolate(from, to, 1 - (1 - progress) ** 3));
  }

  private move(viewport: Viewport): void {
    this.viewport = this.drawing === null ? viewport : keepVisible(viewport, this.drawing, this.screen);
    this.movedAt = performance.now();
    this.onMove();
  }

  private wholeDrawing({ width, height }: Size): Box {
    return { x: 0, y: 0, width, height };
  }
}
