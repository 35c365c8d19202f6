// The marks of the states on a canvas: the same shapes as those of the page, in a few strokes.

import { TONES } from "./tones";

type Pen = Pick<CanvasRenderingContext2D, "moveTo" | "lineTo" | "arc" | "rect">;

interface Mark {
  isFilled: boolean;
  trace(pen: Pen, x: number, y: number, r: number): void;
}

const circle = (pen: Pen, x: number, y: number, r: number) => {
  pen.moveTo(x + r, y);
  pen.arc(x, y, r, 0, 2 * Math.PI);
};

const MARKS: Record<string, Mark> = {
  pending: { isFilled: false, trace: (pen, x, y, r) => circle(pen, x, y, 0.7 * r) },
  ready: { isFilled: true, trace: (pen, x, y, r) => circle(pen, x, y, 0.55 * r) },
  running: {
    isFilled: false,
    trace: (pen, x, y, r) => {
      pen.moveTo(x, y - 0.85 * r);
      pen.arc(x, y, 0.85 * r, -Math.PI / 2, Math.PI);
    },
  },
  waiting: {
    isFilled: false,
    trace: (pen, x, y, r) => {
      circle(pen, x, y, 0.85 * r);
      pen.moveTo(x, y - 0.5 * r);
      pen.lineTo(x, y);
      pen.lineTo(x + 0.35 * r, y + 0.2 * r);
    },
  },
  completed: {
    isFilled: false,
    trace: (pen, x, y, r) => {
      pen.moveTo(x - 0.7 * r, y + 0.05 * r);
      pen.lineTo(x - 0.15 * r, y + 0.6 * r);
      pen.lineTo(x + 0.75 * r, y - 0.55 * r);
    },
  },
  failed: {
    isFilled: false,
    trace: (pen, x, y, r) => {
      pen.moveTo(x - 0.65 * r, y - 0.65 * r);
      pen.lineTo(x + 0.65 * r, y + 0.65 * r);
      pen.moveTo(x + 0.65 * r, y - 0.65 * r);
      pen.lineTo(x - 0.65 * r, y + 0.65 * r);
    },
  },
  skipped: {
    isFilled: false,
    trace: (pen, x, y, r) => {
      for (const shift of [-0.5, 0.25]) {
        pen.moveTo(x + shift * r, y - 0.6 * r);
        pen.lineTo(x + (shift + 0.5) * r, y);
        pen.lineTo(x + shift * r, y + 0.6 * r);
      }
    },
  },
  cancelled: { isFilled: true, trace: (pen, x, y, r) => pen.rect(x - 0.6 * r, y - 0.6 * r, 1.2 * r, 1.2 * r) },
};

export function markOf(tone: number): Mark | undefined {
  return MARKS[TONES[tone] ?? ""];
}
