// Sends a request for each of many items, a few at a time.

export const CONCURRENCY = 4;

export interface Failure<T> {
  item: T;
  reason: string;
}

/** Send a request for every item and return the failures. `onProgress` receives the number of finished requests. */
export async function sendAll<T>(
  items: readonly T[],
  request: (item: T) => Promise<unknown>,
  onProgress: (done: number) => void,
): Promise<Failure<T>[]> {
  const failures: Failure<T>[] = [];
  const queue = items.values();
  let done = 0;
  const work = async () => {
    for (const item of queue) {
      try {
        await request(item);
      } catch (error) {
        failures.push({ item, reason: error instanceof Error ? error.message : String(error) });
      }
      done += 1;
      onProgress(done);
    }
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, items.length) }, work));
  return failures;
}
