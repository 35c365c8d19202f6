// The layout of a large graph: ranks by the longest way, sorted by where neighbours are, in time linear in its edges.

import { type Layout, type LayoutRequest, unitCount } from "./layout_types";
import { settled } from "./remove_overlaps";

const UNIT_GAP = 18;
const RANK_GAP = 72;
const COLUMN_GAP = 26;
const ORDER_SWEEPS_MAX = 8;
const PLACE_SWEEPS_MAX = 6;
const SWEEPS_MILLISECONDS = 350;
/** The whole should be about so much wider than high. */
const ASPECT = 1.9;

interface Neighbours {
  parents: number[][];
  children: number[][];
}

/** Along: in the direction of the edges; across: at right angles to it. */
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
  const neighbours = neighboursOf(request);
  const ranks = ranksOf(neighbours);
  const deadline = performance.now() + SWEEPS_MILLISECONDS;
  sortRanks(ranks, neighbours, deadline);
  const rows = rowsOf(ranks, sizes, isRight ? ASPECT : 1 / ASPECT);
  const { along, length } = placedAlong(ranks, sizes, rows);
  const { across, breadth } = placedAcross(ranks, neighbours, sizes, rows, deadline);
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

function neighboursOf(request: LayoutRequest): Neighbours {
  const count = unitCount(request);
  const parents: number[][] = Array.from({ length: count }, () => []);
  const children: number[][] = Array.from({ length: count }, () => []);
  for (let at = 0; at < request.edges.length; at += 2) {
    const [from, to] = [request.edges[at] as number, request.edges[at + 1] as number];
    parents[to]?.push(from);
    children[from]?.push(to);
  }
  return { parents, children };
}

function ranksOf({ parents, children }: Neighbours): number[][] {
  const missing = parents.map((above) => above.length);
  const ranks: number[][] = [];
  let rank = missing.flatMap((count, unit) => (count === 0 ? [unit] : []));
  while (rank.length > 0) {
    ranks.push(rank);
    const next: number[] = [];
    for (const unit of rank) {
      for (const child of children[unit] as number[]) {
        missing[child] = (missing[child] as number) - 1;
        if (missing[child] === 0) {
          next.push(child);
        }
      }
    }
    rank = next;
  }
  return ranks;
}

/** Barycentres, down and up: every unit moves to where its neighbours are on average. */
function sortRanks(ranks: number[][], { parents, children }: Neighbours, deadline: number): void {
  const places = new Float64Array(parents.length);
  const wanted = new Float64Array(parents.length);
  const number = (rank: number[]) => {
    // From the middle, so that ranks of different sizes lie beside each other.
    rank.forEach((unit, place) => {
      places[unit] = place - (rank.length - 1) / 2;
    });
  };
  ranks.forEach(number);
  for (let sweep = 0; sweep < ORDER_SWEEPS_MAX && performance.now() < deadline; sweep++) {
    const isDown = sweep % 2 === 0;
    const others = isDown ? parents : children;
    for (const rank of isDown ? ranks : ranks.toReversed()) {
      for (const unit of rank) {
        wanted[unit] = meanOf(others[unit] as number[], places) ?? (places[unit] as number);
      }
      rank.sort((one, other) => (wanted[one] as number) - (wanted[other] as number));
      number(rank);
    }
  }
}

function meanOf(units: number[], places: Float64Array): number | null {
  if (units.length === 0) {
    return null;
  }
  let sum = 0;
  for (const unit of units) {
    sum += places[unit] as number;
  }
  return sum / units.length;
}

/** How many units of a rank stand in one column: more than that go into further columns beside it. */
function rowsOf(ranks: number[][], sizes: Sizes, aspect: number): number {
  const most = Math.max(...ranks.map((rank) => rank.length));
  const along = meanSize(sizes.along) + RANK_GAP;
  const across = meanSize(sizes.across) + UNIT_GAP;
  let best = most;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (let rows = 12; rows < most * 1.3; rows = Math.ceil(rows * 1.25)) {
    const height = Math.min(rows, most);
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

function placedAlong(ranks: number[][], sizes: Sizes, rows: number): { along: Float32Array; length: number } {
  const along = new Float32Array(sizes.along.length);
  let at = 0;
  for (const rank of ranks) {
    for (let first = 0; first < rank.length; first += rows) {
      const column = rank.slice(first, first + rows);
      const size = column.reduce((most, unit) => Math.max(most, sizes.along[unit] as number), 0);
      for (const unit of column) {
        along[unit] = at + (size - (sizes.along[unit] as number)) / 2;
      }
      at += size + (first + rows < rank.length ? COLUMN_GAP : RANK_GAP);
    }
  }
  return { along, length: Math.max(0, at - RANK_GAP) };
}

function placedAcross(
  ranks: number[][],
  { parents, children }: Neighbours,
  sizes: Sizes,
  rows: number,
  deadline: number,
): { across: Float32Array; breadth: number } {
  const middles = new Float64Array(parents.length);
  for (const rank of ranks) {
    for (let first = 0; first < rank.length; first += rows) {
      stack(rank.slice(first, first + rows), sizes.across, middles);
    }
  }
  const loose = ranks.filter((rank) => rank.length <= rows);
  for (let sweep = 0; sweep < PLACE_SWEEPS_MAX && performance.now() < deadline; sweep++) {
    const isDown = sweep % 2 === 0;
    const others = isDown ? parents : children;
    for (const rank of isDown ? loose : loose.toReversed()) {
      const wanted = rank.map((unit) => meanOf(others[unit] as number[], middles) ?? (middles[unit] as number));
      const room = rank.map((unit) => sizes.across[unit] as number);
      settled(wanted, room, UNIT_GAP).forEach((middle, place) => {
        middles[rank[place] as number] = middle;
      });
    }
  }
  let [least, most] = [0, 0];
  middles.forEach((middle, unit) => {
    const half = (sizes.across[unit] as number) / 2;
    least = Math.min(least, middle - half);
    most = Math.max(most, middle + half);
  });
  const across = Float32Array.from(middles, (middle, unit) => middle - (sizes.across[unit] as number) / 2 - least);
  return { across, breadth: most - least };
}

/** One above the other, around the middle. */
function stack(column: number[], sizes: Float32Array, middles: Float64Array): void {
  const whole = column.reduce((sum, unit) => sum + (sizes[unit] as number) + UNIT_GAP, -UNIT_GAP);
  let at = -whole / 2;
  for (const unit of column) {
    const size = sizes[unit] as number;
    middles[unit] = at + size / 2;
    at += size + UNIT_GAP;
  }
}
