// The whole graph in small, with the part in sight; dragged to look elsewhere.

import { type PointerEvent, useEffect, useRef } from "react";
import type { Stage } from "./graph_renderer";
import type { Scene } from "./scene";
import { PLAIN, TONES } from "./tones";
import { seen } from "./viewport";

const WIDTH = 184;
const HEIGHT = 112;
const PADDING = 6;
const REPAINT_MS = 400;

export function Minimap({ stage, scene }: { stage: Stage; scene: Scene }) {
  const place = useRef<HTMLCanvasElement>(null);
  const shown = useRef(scene);
  const draw = useRef<(isNew: boolean) => void>(() => {});
  useEffect(() => {
    const canvas = place.current;
    if (!canvas) {
      return;
    }
    const painter = new Painter(canvas, stage, shown);
    draw.current = (isNew) => painter.draw(isNew);
    const follow = () => painter.draw(false);
    stage.watchers.add(follow);
    return () => {
      stage.watchers.delete(follow);
      painter.stop();
    };
  }, [stage]);
  useEffect(() => {
    shown.current = scene;
    draw.current(true);
  }, [scene]);
  const look = (event: PointerEvent<HTMLCanvasElement>) => {
    if (event.buttons === 0) {
      return;
    }
    event.currentTarget.setPointerCapture(event.pointerId);
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const { scale, x, y } = frameOf(shown.current);
    const { camera, screen } = stage;
    const [atX, atY] = [(event.clientX - left - x) / scale, (event.clientY - top - y) / scale];
    stage.look({
      x: screen.width / 2 - atX * camera.scale,
      y: screen.height / 2 - atY * camera.scale,
      scale: camera.scale,
    });
  };
  return (
    <canvas
      ref={place}
      data-control
      style={{ width: WIDTH, height: HEIGHT }}
      onPointerDown={look}
      onPointerMove={look}
      className="absolute bottom-2.5 right-2.5 cursor-grab touch-none rounded-md border border-line bg-surface/90 shadow-xs active:cursor-grabbing"
    />
  );
}

function frameOf({ layout }: Scene): { scale: number; x: number; y: number } {
  const scale = Math.min((WIDTH - 2 * PADDING) / layout.width, (HEIGHT - 2 * PADDING) / layout.height);
  return { scale, x: (WIDTH - layout.width * scale) / 2, y: (HEIGHT - layout.height * scale) / 2 };
}

/** Units are painted now and then, the frame around what is in sight whenever it moves. */
class Painter {
  private readonly canvas: HTMLCanvasElement;
  private readonly stage: Stage;
  private readonly shown: { current: Scene };
  private readonly units = document.createElement("canvas");
  private paintedAt = Number.NEGATIVE_INFINITY;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(canvas: HTMLCanvasElement, stage: Stage, shown: { current: Scene }) {
    this.canvas = canvas;
    this.stage = stage;
    this.shown = shown;
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

  /** With new states units are painted too, a little later and not too often: the graph itself comes first. */
  draw(isNew: boolean): void {
    if (isNew) {
      this.timer ??= setTimeout(
        () => {
          this.paintUnits();
          this.draw(false);
        },
        Math.max(0, this.paintedAt + REPAINT_MS - performance.now()),
      );
    }
    const brush = this.canvas.getContext("2d");
    if (brush) {
      brush.clearRect(0, 0, WIDTH, HEIGHT);
      brush.drawImage(this.units, 0, 0, WIDTH, HEIGHT);
      this.frame(brush);
    }
  }

  private frame(brush: CanvasRenderingContext2D): void {
    const { scale, x, y } = frameOf(this.shown.current);
    const box = seen(this.stage.camera, this.stage.screen);
    const [left, top] = [Math.max(1, x + box.x * scale), Math.max(1, y + box.y * scale)];
    const right = Math.min(WIDTH - 1, x + (box.x + box.width) * scale);
    const bottom = Math.min(HEIGHT - 1, y + (box.y + box.height) * scale);
    brush.strokeStyle = this.shown.current.colours.accent;
    brush.lineWidth = 1.5;
    brush.strokeRect(left, top, Math.max(3, right - left), Math.max(3, bottom - top));
  }

  private paintUnits(): void {
    this.timer = undefined;
    this.paintedAt = performance.now();
    const scene = this.shown.current;
    const brush = this.units.getContext("2d");
    if (!brush) {
      return;
    }
    const { layout, tones, colours } = scene;
    const { scale, x, y } = frameOf(scene);
    brush.clearRect(0, 0, WIDTH, HEIGHT);
    // What matters most lies above.
    for (const tone of [PLAIN, ...TONES.keys()].sort((one, other) => weightOf(one) - weightOf(other))) {
      brush.fillStyle = tone === PLAIN ? colours.muted : (colours.tones[tone] ?? colours.muted);
      brush.globalAlpha = tone === PLAIN || TONES[tone] === "pending" ? 0.5 : 1;
      for (let unit = 0; unit < tones.length; unit++) {
        if (tones[unit] === tone && !scene.isFrame[unit]) {
          const width = Math.max(1, (layout.widths[unit] as number) * scale);
          const height = Math.max(1, (layout.heights[unit] as number) * scale);
          // One by one: a path of thousands of them takes twice as long to fill.
          brush.fillRect(x + (layout.x[unit] as number) * scale, y + (layout.y[unit] as number) * scale, width, height);
        }
      }
    }
    brush.globalAlpha = 1;
  }
}

function weightOf(tone: number): number {
  return TONES[tone] === "failed" ? 100 : tone;
}
