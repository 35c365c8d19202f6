// Renders a scene: at most once per frame, on a canvas and as cards.

import { Camera } from "./camera";
import { CardLayer } from "./card_layer";
import { hasAnimatedEdges, paintOverlay } from "./overlay";
import { PaintScheduler, setTransform } from "./paint_scheduler";
import type { Context } from "./painter";
import { boxOf, type Scene } from "./scene";
import type { Size, Viewport } from "./viewport";

const PIXEL_RATIO_MAX = 2;
/** Interval of frames that only animate edges. */
const ANIMATED_EDGES_MS = 33;

export class GraphRenderer {
  readonly camera: Camera;
  readonly cardLayer: CardLayer;
  /** Called after each frame in which the camera moved. */
  readonly onCameraMove = new Set<() => void>();

  private readonly context: Context;
  private readonly painter = new PaintScheduler();
  private scene: Scene | null = null;
  private frame = 0;
  private renderedAt = 0;
  private renderedViewport: Viewport | null = null;

  constructor(canvas: HTMLCanvasElement, cardElement: HTMLElement) {
    this.context = canvas.getContext("2d") as Context;
    this.camera = new Camera(
      () => this.invalidate(),
      () => this.requestFrame(),
    );
    this.cardLayer = new CardLayer(cardElement, () => this.invalidate());
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    this.onCameraMove.clear();
    this.cardLayer.stop();
  }

  resize(screen: Size): void {
    this.cardLayer.invalidate();
    const { canvas } = this.context;
    canvas.width = Math.round(screen.width * this.pixelRatio);
    canvas.height = Math.round(screen.height * this.pixelRatio);
    this.camera.resize(screen);
    this.invalidate();
  }

  show(scene: Scene): void {
    if (this.scene?.layout !== scene.layout) {
      this.cardLayer.invalidate();
      this.painter.reset();
      this.camera.setDrawing(scene.layout);
    }
    this.scene = scene;
    this.invalidate();
  }

  /** Move the camera to a unit unless it is visible at the given scale. */
  reveal(unit: number, scaleMin = 0): void {
    if (this.scene !== null && unit >= 0) {
      this.camera.reveal(boxOf(this.scene.layout, unit), scaleMin);
    }
  }

  private get pixelRatio(): number {
    return Math.min(PIXEL_RATIO_MAX, devicePixelRatio || 1);
  }

  private invalidate(): void {
    this.painter.invalidate();
    this.requestFrame();
  }

  private requestFrame(): void {
    if (this.frame === 0) {
      this.frame = requestAnimationFrame((now) => this.render(now));
    }
  }

  private render(now: number): void {
    this.frame = 0;
    const { scene, camera, painter } = this;
    if (scene === null || camera.screen.width === 0) {
      return;
    }
    camera.advance(now);
    if (!painter.isPending && now - this.renderedAt < ANIMATED_EDGES_MS) {
      this.requestFrame();
      return;
    }
    this.renderedAt = now;
    const { viewport } = camera;
    this.cardLayer.update(scene, camera, painter.hasImage);
    painter.paint(scene, viewport, camera.screen, this.pixelRatio);
    this.compose(scene, now);
    if (this.renderedViewport !== viewport) {
      this.renderedViewport = viewport;
      for (const listener of this.onCameraMove) {
        listener();
      }
    }
    const hasMotion = hasAnimatedEdges(scene, viewport) && !camera.prefersReducedMotion.matches;
    if (painter.isPending || camera.isAnimating || hasMotion) {
      this.requestFrame();
    }
  }

  /** Draw the painted image and the overlay on the visible canvas. */
  private compose(scene: Scene, now: number): void {
    const { context, pixelRatio, camera } = this;
    const { viewport } = camera;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, context.canvas.width, context.canvas.height);
    this.painter.drawImage(context, viewport, pixelRatio);
    setTransform(context, viewport, pixelRatio);
    paintOverlay(context, scene, viewport, {
      animationTime: camera.prefersReducedMotion.matches ? null : now,
      hasCards: this.cardLayer.cards.units.length > 0,
    });
  }
}
