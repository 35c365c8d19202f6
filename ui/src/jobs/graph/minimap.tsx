// A small map of the whole graph with the visible part; dragging moves the camera.

import { type PointerEvent, useEffect, useRef } from "react";
import type { GraphRenderer } from "./graph_renderer";
import type { Scene } from "./scene";
import { NO_TONE, TONES } from "./tones";
import { visibleBox } from "./viewport";

const WIDTH = 184;
const HEIGHT = 112;
const PADDING = 6;
const REPAINT_MS = 400;

export function Minimap({ renderer, scene }: { renderer: GraphRenderer; scene: Scene }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latestScene = useRef(scene);
  const painter = useRef<MinimapPainter | null>(null);
  useEffect(() => {
    if (!canvas.current) {
      return;
    }
    const created = new MinimapPainter(canvas.current, renderer, latestScene);
    painter.current = created;
    const onCameraMove = () => created.draw();
    renderer.onCameraMove.add(onCameraMove);
    return () => {
      renderer.onCameraMove.delete(onCameraMove);
      created.stop();
      painter.current = null;
    };
  }, [renderer]);
  useEffect(() => {
    latestScene.current = scene;
    painter.current?.scheduleUnits();
    painter.current?.draw();
  }, [scene]);
  const moveCamera = (event: PointerEvent<HTMLCanvasElement>) => {
    if (event.buttons === 0) {
      return;
    }
    event.currentTarget.setPointerCapture(event.pointerId);
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const { scale, x, y } = placementOf(latestScene.current);
    const { viewport, screen } = renderer.camera;
    const [targetX, targetY] = [(event.clientX - left - x) / scale, (event.clientY - top - y) / scale];
    renderer.camera.jumpTo({
      x: screen.width / 2 - targetX * viewport.scale,
      y: screen.height / 2 - targetY * viewport.scale,
      scale: viewport.scale,
    });
  };
  return (
    <canvas
      ref={canvas}
      data-control
      style={{ width: WIDTH, height: HEIGHT }}
      onPointerDown={moveCamera}
      onPointerMove={moveCamera}
      className="absolute bottom-2.5 right-2.5 cursor-grab touch-none rounded-md border border-line bg-surface/90 shadow-xs active:cursor-grabbing"
    />
  );
}

/** The scale and offset of the graph on the map. */
function placementOf({ layout }: Scene): { scale: number; x: number; y: number } {
  const scale = Math.min((WIDTH - 2 * PADDING) / layout.width, (HEIGHT - 2 * PADDING) / layout.height);
  return { scale, x: (WIDTH - layout.width * scale) / 2, y: (HEIGHT - layout.height * scale) / 2 };
}

/** Paints the units at intervals, and the visible part whenever the camera moves. */
class MinimapPainter {
  private readonly canvas: HTMLCanvasElement;
  private readonly renderer: GraphRenderer;
  private readonly scene: { current: Scene };
  private readonly units = document.createElement("canvas");
  private unitsPaintedAt = Number.NEGATIVE_INFINITY;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(canvas: HTMLCanvasElement, renderer: GraphRenderer, scene: { current: Scene }) {
    this.canvas = canvas;
    this.renderer = renderer;
    this.scene = scene;
    const ratio = Math.min(2, devicePixelRatio || 1);
    for (const one of [canvas, this.units]) {
      one.width = WIDTH * ratio;
      one.height = HEIGHT * ratio;
      one.getContext("2d")?.scale(ratio, ratio);
    }
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  /** Paint the units soon, but not too often: the graph itself has priority. */
  scheduleUnits(): void {
    const delay = Math.max(0, this.unitsPaintedAt + REPAINT_MS - performance.now());
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.paintUnits();
      this.draw();
    }, delay);
  }

  draw(): void {
    const context = this.canvas.getContext("2d");
    if (context) {
      context.clearRect(0, 0, WIDTH, HEIGHT);
      context.drawImage(this.units, 0, 0, WIDTH, HEIGHT);
      this.drawVisibleBox(context);
    }
  }

  private drawVisibleBox(context: CanvasRenderingContext2D): void {
    const { scale, x, y } = placementOf(this.scene.current);
    const { viewport, screen } = this.renderer.camera;
    const box = visibleBox(viewport, screen);
    const [left, top] = [Math.max(1, x + box.x * scale), Math.max(1, y + box.y * scale)];
    const right = Math.min(WIDTH - 1, x + (box.x + box.width) * scale);
    const bottom = Math.min(HEIGHT - 1, y + (box.y + box.height) * scale);
    context.strokeStyle = this.scene.current.colors.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left, top, Math.max(3, right - left), Math.max(3, bottom - top));
  }

  private paintUnits(): void {
    this.unitsPaintedAt = performance.now();
    const scene = this.scene.current;
    const context = this.units.getContext("2d");
    if (!context) {
      return;
    }
    const { layout, tones, colors } = scene;
    const { scale, x, y } = placementOf(scene);
    context.clearRect(0, 0, WIDTH, HEIGHT);
    // The most important tones are painted last, over the others.
    for (const tone of [NO_TONE, ...TONES.keys()].sort((one, other) => importanceOf(one) - importanceOf(other))) {
      context.fillStyle = tone === NO_TONE ? colors.muted : (colors.tones[tone] ?? colors.muted);
      context.globalAlpha = tone === NO_TONE || TONES[tone] === "pending" ? 0.5 : 1;
      for (let unit = 0; unit < tones.length; unit++) {
        if (tones[unit] === tone && !scene.isFrame[unit]) {
          const width = Math.max(1, (layout.widths[unit] as number) * scale);
          const height = Math.max(1, (layout.heights[unit] as number) * scale);
          // Filling one path with thousands of rectangles takes twice as long.
          context.fillRect(
            x + (layout.x[unit] as number) * scale,
            y + (layout.y[unit] as number) * scale,
            width,
            height,
          );
        }
      }
    }
    context.globalAlpha = 1;
  }
}

function importanceOf(tone: number): number {
  return TONES[tone] === "failed" ? 100 : tone;
}
