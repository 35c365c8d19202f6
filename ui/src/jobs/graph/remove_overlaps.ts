// Things in a row, each as near as can be to where it wants to be, in their order and without overlap.

/** The middles that lie the least (by squares) from the wanted ones: isotonic regression, in linear time. */
export function settled(wanted: readonly number[], sizes: readonly number[], gap: number): number[] {
  // Measured from where each thing would stand in a tight row, "no overlap" means "does not decrease".
  const tight: number[] = [];
  let at = 0;
  sizes.forEach((size, place) => {
    at += place === 0 ? 0 : (sizes[place - 1] as number) / 2 + gap + size / 2;
    tight.push(at);
  });
  const blocks: { sum: number; count: number }[] = [];
  wanted.forEach((middle, place) => {
    let block = { sum: middle - (tight[place] as number), count: 1 };
    let last = blocks.at(-1);
    while (last !== undefined && last.sum / last.count >= block.sum / block.count) {
      block = { sum: last.sum + block.sum, count: last.count + block.count };
      blocks.pop();
      last = blocks.at(-1);
    }
    blocks.push(block);
  });
  const found: number[] = [];
  for (const { sum, count } of blocks) {
    for (let place = 0; place < count; place++) {
      found.push(sum / count + (tight[found.length] as number));
    }
  }
  return found;
}
