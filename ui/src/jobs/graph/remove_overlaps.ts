// Places items in a row without overlap, in order, as close as possible to their preferred positions.

/** Return the centers with the least squared distance to the preferred ones: isotonic regression, in linear time. */
export function removeOverlaps(preferred: readonly number[], sizes: readonly number[], gap: number): number[] {
  // Relative to the positions in a packed row, "no overlap" means "not decreasing".
  const packed: number[] = [];
  let position = 0;
  sizes.forEach((size, index) => {
    position += index === 0 ? 0 : (sizes[index - 1] as number) / 2 + gap + size / 2;
    packed.push(position);
  });
  const blocks: { sum: number; count: number }[] = [];
  preferred.forEach((center, index) => {
    let block = { sum: center - (packed[index] as number), count: 1 };
    let last = blocks.at(-1);
    while (last !== undefined && last.sum / last.count >= block.sum / block.count) {
      block = { sum: last.sum + block.sum, count: last.count + block.count };
      blocks.pop();
      last = blocks.at(-1);
    }
    blocks.push(block);
  });
  const centers: number[] = [];
  for (const { sum, count } of blocks) {
    for (let item = 0; item < count; item++) {
      centers.push(sum / count + (packed[centers.length] as number));
    }
  }
  return centers;
}
