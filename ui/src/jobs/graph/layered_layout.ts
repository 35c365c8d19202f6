// Layout of large graphs: ranks by longest path, sorted by neighbor positions, in time linear in the edges.

import { type Layout, type LayoutRequest, unitCount } from "./layout_types";
import { removeOverlaps } from "./remove_overlaps";

const UNIT_GAP = 18;
const RANK_GAP = 72;
const COLUMN_GAP = 26;
const ORDER_SWEEPS_MAX = 8;
const POSITION_SWEEPS_MAX = 6;
const SWEEPS_MILLISECONDS = 350;
/** The preferred ratio of width to height. */
const ASPECT = 1.9;

interface Neighbors {
  parents: number[][];
  children: number[][];
}

/** Sizes along the direction of the edges and across it. */
interface Sizes {
  along: Float32Array;
  across: Float32Array;
}

export function layeredLayout(request: LayoutRequest): Layout {
  const isRight = request.direction === "right";
  const sizes: Sizes = {
    along: isRight ? request.widths : request.heights,
    across: isRight ? request.heights : request.widths,
  };
  const neighbors = findNeighbors(request);
  const ranks = assignRanks(neighbors);
  const deadline = performance.now() + SWEEPS_MILLISECONDS;
  sortRanks(ranks, neighbors, deadline);
  const rows = chooseRows(ranks, sizes, isRight ? ASPECT : 1 / ASPECT);
  const { along, length } = placeAlong(ranks, sizes, rows);
  const { across, breadth } = placeAcross(ranks, neighbors, sizes, rows, deadline);
  return {
    direction: request.direction,
    x: isRight ? along : across,
    y: isRight ? across : along,
    widths: request.widths,
    heights: request.heights,
    edges: request.edges,
    bends: new Float32Array(0),
    bendStarts: new Int32Array(request.edges.length / 2 + 1),
    width: isRight ? length : breadth,
    height: isRight ? breadth : length,
  };
}

function findNeighbors(request: LayoutRequest): Neighbors {
  const count = unitCount(request);
  const parents: number[][] = Array.from({ length: count }, () => []);
  const children: number[][] = Array.from({ length: count }, () => []);
  for (let index = 0; index < request.edges.length; index += 2) {
    const [from, to] = [request.edges[index] as number, request.edges[index + 1] as number];
    parents[to]?.push(from);
    children[from]?.push(to);
  }
  return { parents, children };
}

function assignRanks({ parents, children }: Neighbors): number[][] {
  const remaining = parents.map((unitParents) => unitParents.length);
  const ranks: number[][] = [];
  let rank = remaining.flatMap((count, unit) => (count === 0 ? [unit] : []));
  while (rank.length > 0) {
    ranks.push(rank);
    const next: number[] = [];
    for (const unit of rank) {
      for (const child of children[unit] as number[]) {
        remaining[child] = (remaining[child] as number) - 1;
        if (remaining[child] === 0) {
          next.push(child);
        }
      }
    }
    rank = next;
  }
  return ranks;
}

/** Sort each rank by the mean position of the neighbors (barycenter method), in alternating directions. */
function sortRanks(ranks: number[][], { parents, children }: Neighbors, deadline: number): void {
  const positions = new Float64Array(parents.length);
  const preferred = new Float64Array(parents.length);
  const assignPositions = (rank: number[]) => {
    // From the center, so that ranks of different sizes are aligned.
    rank.forEach((unit, index) => {
      positions[unit] = index - (rank.length - 1) / 2;
    });
  };
  ranks.forEach(assignPositions);
  for (let sweep = 0; sweep < ORDER_SWEEPS_MAX && performance.now() < deadline; sweep++) {
    const isDown = sweep % 2 === 0;
    const others = isDown ? parents : children;
    for (const rank of isDown ? ranks : ranks.toReversed()) {
      for (const unit of rank) {
        preferred[unit] = meanOf(others[unit] as number[], positions) ?? (positions[unit] as number);
      }
      rank.sort((one, other) => (preferred[one] as number) - (preferred[other] as number));
      assignPositions(rank);
    }
  }
}

function meanOf(units: number[], positions: Float64Array): number | null {
  if (units.length === 0) {
    return null;
  }
  let sum = 0;
  for (const unit of units) {
    sum += positions[unit] as number;
  }
  return sum / units.length;
}

/** Choose the maximum of units per column. Larger ranks take several columns. */
function chooseRows(ranks: number[][], sizes: Sizes, aspect: number): number {
  const largest = Math.max(...ranks.map((rank) => rank.length));
  const along = meanSize(sizes.along) + RANK_GAP;
  const across = meanSize(sizes.across) + UNIT_GAP;
  let best = largest;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (let rows = 12; rows < largest * 1.3; rows = Math.ceil(rows * 1.25)) {
    const height = Math.min(rows, largest);
    const columns = ranks.reduce((sum, rank) => sum + Math.ceil(rank.length / height), 0);
    const distance = Math.abs(Math.log((columns * along) / (height * across) / aspect));
    if (distance < bestDistance) {
      [best, bestDistance] = [height, distance];
    }
  }
  return best;
}

function meanSize(sizes: Float32Array): number {
  return sizes.reduce((sum, size) => sum + size, 0) / Math.max(1, sizes.length);
}

function placeAlong(ranks: number[][], sizes: Sizes, rows: number): { along: Float32Array; length: number } {
  const along = new Float32Array(sizes.along.length);
  let position = 0;
  for (const rank of ranks) {
    for (let first = 0; first < rank.length; first += rows) {
      const column = rank.slice(first, first + rows);
      const size = column.reduce((size, unit) => Math.max(size, sizes.along[unit] as number), 0);
      for (const unit of column) {
        along[unit] = position + (size - (sizes.along[unit] as number)) / 2;
      }
      position += size + (first + rows < rank.length ? COLUMN_GAP : RANK_GAP);
    }
  }
  return { along, length: Math.max(0, position - RANK_GAP) };
}

function placeAcross(
  ranks: number[][],
  { parents, children }: Neighbors,
  sizes: Sizes,
  rows: number,
  deadline: number,
): { across: Float32Array; breadth: number } {
  const centers = new Float64Array(parents.length);
  for (const rank of ranks) {
    for (let first = 0; first < rank.length; first += rows) {
      stack(rank.slice(first, first + rows), sizes.across, centers);
    }
  }
  const singleColumn = ranks.filter((rank) => rank.length <= rows);
  for (let sweep = 0; sweep < POSITION_SWEEPS_MAX && performance.now() < deadline; sweep++) {
    const isDown = sweep % 2 === 0;
    const others = isDown ? parents : children;
    for (const rank of isDown ? singleColumn : singleColumn.toReversed()) {
      const preferred = rank.map((unit) => meanOf(others[unit] as number[], centers) ?? (centers[unit] as number));
      const unitSizes = rank.map((unit) => sizes.across[unit] as number);
      removeOverlaps(preferred, unitSizes, UNIT_GAP).forEach((center, index) => {
        centers[rank[index] as number] = center;
      });
    }
  }
  let [min, max] = [0, 0];
  centers.forEach((center, unit) => {
    const half = (sizes.across[unit] as number) / 2;
    min = Math.min(min, center - half);
    max = Math.max(max, center + half);
  });
  const across = Float32Array.from(centers, (center, unit) => center - (sizes.across[unit] as number) / 2 - min);
  return { across, breadth: max - min };
}

/** Stack units around the center. */
function stack(column: number[], sizes: Float32Array, centers: Float64Array): void {
  const total = column.reduce((sum, unit) => sum + (sizes[unit] as number) + UNIT_GAP, -UNIT_GAP);
  let position = -total / 2;
  for (const unit of column) {
    const size = sizes[unit] as number;
    centers[unit] = position + size / 2;
    position += size + UNIT_GAP;
  }
}
