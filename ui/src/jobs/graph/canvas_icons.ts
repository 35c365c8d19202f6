// Status icons on a canvas, simplified versions of those in components/status.tsx.

import { TONES } from "./tones";

type Path = Pick<CanvasRenderingContext2D, "moveTo" | "lineTo" | "arc" | "rect">;

interface Icon {
  isFilled: boolean;
  trace(path: Path, x: number, y: number, r: number): void;
}

const circle = (path: Path, x: number, y: number, r: number) => {
  path.moveTo(x + r, y);
  path.arc(x, y, r, 0, 2 * Math.PI);
};

const ICONS: Record<string, Icon> = {
  pending: { isFilled: false, trace: (path, x, y, r) => circle(path, x, y, 0.7 * r) },
  ready: { isFilled: true, trace: (path, x, y, r) => circle(path, x, y, 0.55 * r) },
  running: {
    isFilled: false,
    trace: (path, x, y, r) => {
      path.moveTo(x, y - 0.85 * r);
      path.arc(x, y, 0.85 * r, -Math.PI / 2, Math.PI);
    },
  },
  waiting: {
    isFilled: false,
    trace: (path, x, y, r) => {
      circle(path, x, y, 0.85 * r);
      path.moveTo(x, y - 0.5 * r);
      path.lineTo(x, y);
      path.lineTo(x + 0.35 * r, y + 0.2 * r);
    },
  },
  completed: {
    isFilled: false,
    trace: (path, x, y, r) => {
      path.moveTo(x - 0.7 * r, y + 0.05 * r);
      path.lineTo(x - 0.15 * r, y + 0.6 * r);
      path.lineTo(x + 0.75 * r, y - 0.55 * r);
    },
  },
  failed: {
    isFilled: false,
    trace: (path, x, y, r) => {
      path.moveTo(x - 0.65 * r, y - 0.65 * r);
      path.lineTo(x + 0.65 * r, y + 0.65 * r);
      path.moveTo(x + 0.65 * r, y - 0.65 * r);
      path.lineTo(x - 0.65 * r, y + 0.65 * r);
    },
  },
  skipped: {
    isFilled: false,
    trace: (path, x, y, r) => {
      for (const shift of [-0.5, 0.25]) {
        path.moveTo(x + shift * r, y - 0.6 * r);
        path.lineTo(x + (shift + 0.5) * r, y);
        path.lineTo(x + shift * r, y + 0.6 * r);
      }
    },
  },
  cancelled: { isFilled: true, trace: (path, x, y, r) => path.rect(x - 0.6 * r, y - 0.6 * r, 1.2 * r, 1.2 * r) },
};

export function iconOf(tone: number): Icon | undefined {
  return ICONS[TONES[tone] ?? ""];
}
