// Tells React of changes once a frame, however many there were: what changed is read by version, never copied.

export type Schedule = (draw: () => void) => void;

export class Batched {
  private told = 0;
  private isDue = false;
  private readonly listeners = new Set<() => void>();
  private readonly schedule: Schedule;

  constructor(schedule: Schedule = (draw) => requestAnimationFrame(draw)) {
    this.schedule = schedule;
  }

  /** Something changed; those who listen hear of it with the next frame. */
  changed(): void {
    if (this.isDue) {
      return;
    }
    this.isDue = true;
    this.schedule(() => {
      this.isDue = false;
      this.told += 1;
      for (const listener of this.listeners) {
        listener();
      }
    });
  }

  // Bound: React is given these two as they are.
  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly version = (): number => this.told;
}
