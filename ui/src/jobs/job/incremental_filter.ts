// Keeps what passes a test out of a list that grows: only what is new is looked at again.

export class Sieve<T> {
  private readonly test: (item: T) => boolean;
  private source: readonly T[] | null = null;
  private seen = 0;
  private kept: T[] = [];

  constructor(test: (item: T) => boolean) {
    this.test = test;
  }

  /** What passes; the same list as before, longer. */
  of(source: readonly T[]): readonly T[] {
    if (source !== this.source || source.length < this.seen) {
      this.source = source;
      this.seen = 0;
      this.kept = [];
    }
    for (; this.seen < source.length; this.seen++) {
      const item = source[this.seen] as T;
      if (this.test(item)) {
        this.kept.push(item);
      }
    }
    return this.kept;
  }
}
