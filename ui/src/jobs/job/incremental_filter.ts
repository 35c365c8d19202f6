// Filters a growing list; only new items are tested.

export class IncrementalFilter<T> {
  private readonly matches: (item: T) => boolean;
  private source: readonly T[] | null = null;
  private testedCount = 0;
  private result: T[] = [];

  constructor(matches: (item: T) => boolean) {
    this.matches = matches;
  }

  /** Return the matching items. The result of a longer list is the same array, extended. */
  apply(source: readonly T[]): readonly T[] {
    if (source !== this.source || source.length < this.testedCount) {
      this.source = source;
      this.testedCount = 0;
      this.result = [];
    }
    for (; this.testedCount < source.length; this.testedCount++) {
      const item = source[this.testedCount] as T;
      if (this.matches(item)) {
        this.result.push(item);
      }
    }
    return this.result;
  }
}
