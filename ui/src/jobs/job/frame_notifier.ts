// Notifies React of changes at most once per frame. Readers compare versions; nothing is copied.

export type ScheduleFrame = (callback: () => void) => void;

export class FrameNotifier {
  private notifiedCount = 0;
  private isScheduled = false;
  private readonly listeners = new Set<() => void>();
  private readonly scheduleFrame: ScheduleFrame;

  constructor(scheduleFrame: ScheduleFrame = (callback) => requestAnimationFrame(callback)) {
    this.scheduleFrame = scheduleFrame;
  }

  /** Notify the listeners with the next frame. */
  notify(): void {
    if (this.isScheduled) {
      return;
    }
    this.isScheduled = true;
    this.scheduleFrame(() => {
      this.isScheduled = false;
      this.notifiedCount += 1;
      for (const listener of this.listeners) {
        listener();
      }
    });
  }

  // Arrow functions, because useSyncExternalStore calls them without `this`.
  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly version = (): number => this.notifiedCount;
}
