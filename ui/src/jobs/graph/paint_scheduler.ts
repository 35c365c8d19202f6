// Paints a scene into an off-screen buffer, in short slices over several frames if the scene is large.
//
// The last finished buffer stays on the screen while the next one is painted. It is moved and scaled with the viewport,
// so that no frame waits for thousands of lines.

import { type Context, paintScene } from "./painter";
import type { Scene } from "./scene";
import type { Size, Viewport } from "./viewport";

const SLICE_MS = 10;
/** A buffer that is scaled up more is too blurred to show. */
const STRETCH_MAX = 2.5;

interface Buffer {
  canvas: HTMLCanvasElement;
  context: Context;
  viewport: Viewport;
}

export class PaintScheduler {
  private front: Buffer | null = null;
  private back: Buffer = createBuffer();
  private steps: Generator<void> | null = null;
  private isOutdated = false;

  /** Whether there is something left to paint. */
  get isPending(): boolean {
    return this.isOutdated || this.steps !== null;
  }

  get hasImage(): boolean {
    return this.front !== null;
  }

  invalidate(): void {
    this.isOutdated = true;
  }

  /** Drop the buffers, which show another layout. */
  reset(): void {
    this.front = null;
    this.steps = null;
  }

  /** Paint for the length of one slice. */
  paint(scene: Scene, viewport: Viewport, screen: Size, pixelRatio: number): void {
    if (this.isOutdated && (this.steps === null || isFarFrom(this.back.viewport, viewport, screen))) {
      this.isOutdated = false;
      this.steps = this.start(scene, viewport, screen, pixelRatio);
    }
    const end = performance.now() + SLICE_MS;
    while (this.steps !== null && performance.now() < end) {
      const { done } = this.steps.next();
      // Browsers defer strokes until pixels are read: reading after each step keeps the steps short.
      this.back.context.getImageData(0, 0, 1, 1);
      if (done) {
        this.steps = null;
        [this.front, this.back] = [this.back, this.front ?? createBuffer()];
      }
    }
  }

  /** Draw the last finished buffer, moved and scaled to the viewport. */
  drawImage(context: Context, viewport: Viewport, pixelRatio: number): void {
    if (this.front === null) {
      return;
    }
    const { canvas, viewport: painted } = this.front;
    const stretch = viewport.scale / painted.scale;
    if (stretch < STRETCH_MAX) {
      const left = (viewport.x - painted.x * stretch) * pixelRatio;
      const top = (viewport.y - painted.y * stretch) * pixelRatio;
      context.drawImage(canvas, left, top, canvas.width * stretch, canvas.height * stretch);
    }
  }

  private start(scene: Scene, viewport: Viewport, screen: Size, pixelRatio: number): Generator<void> {
    const { canvas, context } = this.back;
    canvas.width = Math.round(screen.width * pixelRatio);
    canvas.height = Math.round(screen.height * pixelRatio);
    this.back.viewport = { ...viewport };
    setTransform(context, viewport, pixelRatio);
    return paintScene(context, scene, this.back.viewport, screen);
  }
}

export function setTransform(context: Context, { x, y, scale }: Viewport, pixelRatio: number): void {
  context.setTransform(pixelRatio * scale, 0, 0, pixelRatio * scale, x * pixelRatio, y * pixelRatio);
}

/** Whether a buffer painted for one viewport shows little of the other. */
function isFarFrom(one: Viewport, other: Viewport, screen: Size): boolean {
  const ratio = one.scale / other.scale;
  const [dx, dy] = [other.x - one.x / ratio, other.y - one.y / ratio];
  return ratio > 1.4 || ratio < 0.7 || Math.abs(dx) > screen.width / 2 || Math.abs(dy) > screen.height / 2;
}

function createBuffer(): Buffer {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d", { willReadFrequently: true }) as Context;
  return { canvas, context, viewport: { x: 0, y: 0, scale: 1 } };
}
