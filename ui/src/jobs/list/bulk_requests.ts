// Does one thing to many jobs, a few requests at a time, and keeps what was refused.

export const REQUESTS_AT_ONCE = 4;

export interface Refused<T> {
  item: T;
  reason: string;
}

/** Acts on every item; a refusal does not stop the others. `onDone` hears how many are through. */
export async function each<T>(
  items: readonly T[],
  act: (item: T) => Promise<unknown>,
  onDone: (done: number) => void,
): Promise<Refused<T>[]> {
  const refused: Refused<T>[] = [];
  const waiting = items.values();
  let done = 0;
  const take = async () => {
    for (const item of waiting) {
      try {
        await act(item);
      } catch (error) {
        refused.push({ item, reason: error instanceof Error ? error.message : String(error) });
      }
      done += 1;
      onDone(done);
    }
  };
  await Promise.all(Array.from({ length: Math.min(REQUESTS_AT_ONCE, items.length) }, take));
  return refused;
}
