// Shows a scene from where one looks: paints at most once a frame, and a large scene over several of them.
//
// A finished painting is kept as a picture. While the next one is under way, that picture is moved and stretched along
// with the camera, so that no frame has to wait for thousands of lines.

import { CARDS_MARGIN, type InSight, inSight, isFar, isSameSight, mayHaveCards } from "./card_layer";
import { type Brush, painted, strokeEdges, strokeOf } from "./painter";
import { boxOf, type Scene } from "./scene";
import {
  type Box,
  between,
  type Camera,
  centred,
  contains,
  fitted,
  kept,
  leastScale,
  type Size,
  seen,
  zoomed,
} from "./viewport";

const SLICE_MS = 10;
const RATIO_MAX = 2;
const FLOW_MS = 33;
/** Below, dashes can not be told from dots. */
const FLOW_SCALE_MIN = 0.15;
/** From here on, names are shown. */
const READABLE_SCALE = 0.3;
/** A picture that is stretched more shows nothing but blurs. */
const STRETCH_MAX = 2.5;
const GLIDE_MS = 260;
/** After so long without motion the canvas makes way for cards. */
const STILL_MS = 120;
const CARDS_AT_ONCE_MAX = 30;

interface Painting {
  canvas: HTMLCanvasElement;
  brush: Brush;
  camera: Camera;
}

export class Stage {
  camera: Camera = { x: 0, y: 0, scale: 1 };
  screen: Size = { width: 0, height: 0 };
  scene: Scene | null = null;
  onInSight: (sight: InSight) => void = () => {};
  /** Called after each frame in which the camera moved. */
  readonly watchers = new Set<() => void>();

  private readonly brush: Brush;
  private readonly layer: HTMLElement;
  private front: Painting | null = null;
  private back: Painting;
  private work: Generator<void> | null = null;
  private isDirty = false;
  private frame = 0;
  private flowedAt = 0;
  private glide: { from: Camera; to: Camera; begunAt: number } | null = null;
  private covered: Box | null = null;
  private sight: InSight = { cards: [], isFar: false };
  private readonly stillness = matchMedia("(prefers-reduced-motion: reduce)");
  private watchedFrom: Camera | null = null;
  /** The whole is looked at: that stays so when the place becomes larger or smaller. */
  private isWhole = false;
  private movedAt = 0;
  private stillTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(canvas: HTMLCanvasElement, layer: HTMLElement) {
    this.brush = canvas.getContext("2d") as Brush;
    this.layer = layer;
    this.back = painting();
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.stillTimer);
    this.watchers.clear();
    this.onInSight = () => {};
  }

  resize(screen: Size): void {
    this.screen = screen;
    this.covered = null;
    const canvas = this.brush.canvas;
    canvas.width = Math.round(screen.width * this.ratio);
    canvas.height = Math.round(screen.height * this.ratio);
    if (this.isWhole && this.scene) {
      const { width, height } = this.scene.layout;
      const { scale } = fitted({ x: 0, y: 0, width, height }, screen);
      // What could be read should not become a mere pattern because a panel opens beside it.
      if (scale >= Math.min(this.camera.scale, READABLE_SCALE)) {
        this.fit(false);
      }
    }
    this.change();
  }

  show(scene: Scene): void {
    if (this.scene?.layout !== scene.layout) {
      this.covered = null;
      this.front = null;
      this.work = null;
    }
    this.scene = scene;
    this.change();
  }

  /** Looks from elsewhere at once. */
  look(camera: Camera): void {
    this.glide = null;
    this.isWhole = false;
    this.move(camera);
  }

  /** Goes to another place; at once for those who do not like motion. */
  glideTo(camera: Camera): void {
    if (this.stillness.matches) {
      this.look(camera);
      return;
    }
    this.isWhole = false;
    this.glide = { from: this.camera, to: camera, begunAt: performance.now() };
    this.request();
  }

  fit(isGliding: boolean, box?: Box): void {
    if (this.scene) {
      const { width, height } = this.scene.layout;
      const camera = fitted(box ?? { x: 0, y: 0, width, height }, this.screen);
      if (isGliding) {
        this.glideTo(camera);
      } else {
        this.look(camera);
      }
      this.isWhole = box === undefined;
    }
  }

  zoom(factor: number, x = this.screen.width / 2, y = this.screen.height / 2): void {
    if (this.scene) {
      const { width, height } = this.scene.layout;
      this.look(zoomed(this.camera, factor, x, y, leastScale({ width, height }, this.screen)));
    }
  }

  push(dx: number, dy: number): void {
    this.look({ ...this.camera, x: this.camera.x + dx, y: this.camera.y + dy });
  }

  /** Brings a unit into sight, if it is not, or near enough to read. */
  reveal(unit: number, scaleMin = 0): void {
    if (!this.scene || unit < 0) {
      return;
    }
    const box = boxOf(this.scene.layout, unit);
    const goal = this.glide?.to ?? this.camera;
    if (goal.scale < scaleMin || !contains(seen(goal, this.screen, -12), box)) {
      this.glideTo(centred(box, this.screen, Math.max(goal.scale, scaleMin)));
    }
  }

  private get ratio(): number {
    return Math.min(RATIO_MAX, devicePixelRatio || 1);
  }

  private move(camera: Camera): void {
    this.camera = this.scene ? kept(camera, this.scene.layout, this.screen) : camera;
    this.movedAt = performance.now();
    this.change();
  }

  private change(): void {
    this.isDirty = true;
    this.request();
  }

  private request(): void {
    if (this.frame === 0) {
      this.frame = requestAnimationFrame((now) => this.step(now));
    }
  }

  private step(now: number): void {
    this.frame = 0;
    const { scene, screen } = this;
    if (!scene || screen.width === 0) {
      return;
    }
    this.glideOn(now);
    const onlyFlows = !this.isDirty && this.work === null;
    if (onlyFlows && now - this.flowedAt < FLOW_MS) {
      this.request();
      return;
    }
    this.flowedAt = now;
    const { x, y, scale } = this.camera;
    this.layer.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    this.findInSight(scene);
    this.paintOn(scene);
    this.compose(scene, now);
    if (this.watchedFrom !== this.camera) {
      this.watchedFrom = this.camera;
      for (const watcher of this.watchers) {
        watcher();
      }
    }
    const flows = this.flows(scene) && !this.stillness.matches;
    if (this.isDirty || this.work || this.glide || flows) {
      this.request();
    }
  }

  private flows(scene: Scene): boolean {
    return scene.flowing.length > 0 && this.camera.scale >= FLOW_SCALE_MIN;
  }

  private glideOn(now: number): void {
    if (!this.glide) {
      return;
    }
    const share = Math.min(1, Math.max(0, (now - this.glide.begunAt) / GLIDE_MS));
    const { from, to } = this.glide;
    if (share === 1) {
      this.glide = null;
    }
    this.move(between(from, to, 1 - (1 - share) ** 3));
  }

  /** Which units are cards now; asked again when one has moved beyond what was found the last time. */
  private findInSight(scene: Scene): void {
    const { sight, camera, screen } = this;
    const isSameKind = sight.isFar === isFar(camera) && (sight.cards.length > 0 || !mayHaveCards(camera));
    if (this.covered && isSameKind && contains(this.covered, seen(camera, screen))) {
      return;
    }
    const found = inSight(scene.layout, camera, screen);
    const moves = this.glide !== null || performance.now() - this.movedAt < STILL_MS;
    if (this.front && moves && sight.cards.length === 0 && found.cards.length > CARDS_AT_ONCE_MAX) {
      // Many new elements at once would hold up the motion.
      clearTimeout(this.stillTimer);
      this.stillTimer = setTimeout(() => this.change(), STILL_MS);
      return;
    }
    this.covered = seen(camera, screen, CARDS_MARGIN);
    if (!isSameSight(found, sight)) {
      this.sight = found;
      this.onInSight(found);
    }
  }

  private paintOn(scene: Scene): void {
    if (this.isDirty && (!this.work || isFarFrom(this.back.camera, this.camera, this.screen))) {
      this.isDirty = false;
      this.work = this.begin(scene);
    }
    const until = performance.now() + SLICE_MS;
    while (this.work && performance.now() < until) {
      const { done } = this.work.next();
      // Browsers put strokes off until somebody looks: looking after each step keeps the steps short.
      this.back.brush.getImageData(0, 0, 1, 1);
      if (done) {
        this.work = null;
        [this.front, this.back] = [this.back, this.front ?? painting()];
      }
    }
  }

  private begin(scene: Scene): Generator<void> {
    const { canvas, brush } = this.back;
    const { ratio, screen } = this;
    canvas.width = Math.round(screen.width * ratio);
    canvas.height = Math.round(screen.height * ratio);
    const { x, y, scale } = this.camera;
    this.back.camera = { x, y, scale };
    brush.setTransform(ratio * scale, 0, 0, ratio * scale, x * ratio, y * ratio);
    return painted(brush, scene, this.back.camera, screen);
  }

  /** The picture as it lies under the camera now, and above it what moves by itself. */
  private compose(scene: Scene, now: number): void {
    const { brush, ratio, camera, front } = this;
    const { canvas } = brush;
    brush.setTransform(1, 0, 0, 1, 0, 0);
    brush.clearRect(0, 0, canvas.width, canvas.height);
    const stretch = front ? camera.scale / front.camera.scale : 0;
    if (front && stretch < STRETCH_MAX) {
      const left = (camera.x - front.camera.x * stretch) * ratio;
      const top = (camera.y - front.camera.y * stretch) * ratio;
      brush.drawImage(front.canvas, left, top, front.canvas.width * stretch, front.canvas.height * stretch);
    }
    brush.setTransform(ratio * camera.scale, 0, 0, ratio * camera.scale, camera.x * ratio, camera.y * ratio);
    if (scene.own.length > 0) {
      strokeEdges(brush, scene, camera, scene.own, { colour: scene.colours.accent, width: 2.4, alpha: 1, dash: [] });
    }
    if (this.flows(scene)) {
      brush.lineDashOffset = this.stillness.matches ? 0 : -(now / 45) % 14;
      strokeEdges(brush, scene, camera, scene.flowing, { ...strokeOf(scene, "flowing"), alpha: 1, dash: [6, 8] });
      brush.lineDashOffset = 0;
    }
    if (this.sight.cards.length === 0 && !scene.isFrame[scene.selected]) {
      this.ring(scene, scene.selected, scene.colours.accent);
    }
    for (const unit of scene.marked) {
      this.ring(scene, unit, scene.colours.tones[3] ?? scene.colours.accent);
    }
  }

  private ring(scene: Scene, unit: number, colour: string): void {
    if (unit < 0) {
      return;
    }
    const { brush } = this;
    const { x, y, width, height } = boxOf(scene.layout, unit);
    const out = 4 / this.camera.scale;
    brush.strokeStyle = colour;
    brush.lineWidth = 2.5 / this.camera.scale;
    brush.beginPath();
    brush.roundRect(x - out, y - out, width + 2 * out, height + 2 * out, 9 + out);
    brush.stroke();
  }
}

/** Whether a painting for one camera would hardly show what another one sees. */
function isFarFrom(one: Camera, other: Camera, screen: Size): boolean {
  const ratio = one.scale / other.scale;
  const [dx, dy] = [other.x - one.x / ratio, other.y - one.y / ratio];
  return ratio > 1.4 || ratio < 0.7 || Math.abs(dx) > screen.width / 2 || Math.abs(dy) > screen.height / 2;
}

function painting(): Painting {
  const canvas = document.createElement("canvas");
  const brush = canvas.getContext("2d", { willReadFrequently: true }) as Brush;
  return { canvas, brush, camera: { x: 0, y: 0, scale: 1 } };
}
