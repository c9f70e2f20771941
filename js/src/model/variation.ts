/** Time per GPU and iteration against the median: which of them is slow. */
import { codesOf } from "./cube.ts";
import type { Cube } from "./payload.ts";

/** Beyond this many interquartile ranges outside the quartiles, a cell is an outlier. */
const FENCE = 1.5;

export interface Cell {
  readonly gpu: number;
  readonly iteration: number;
  readonly timeNs: number;
  /** Time over the median, minus 1. */
  readonly change: number;
  readonly outlier: boolean;
}

export interface Variation {
  /** Cells that have time, by GPU, then iteration. */
  readonly cells: readonly Cell[];
  readonly medianNs: number;
  readonly longestNs: number;
  readonly shortestNs: number;
  /** Symmetric end of the colour scale, a round number. */
  readonly limit: number;
  readonly outliers: number;
}

/** Null if no cell has any time. */
export function variationOf(cube: Cube): Variation | null {
  const gpus = codesOf(cube, "gpu") ?? [];
  const iterations = codesOf(cube, "iteration") ?? [];
  const times = cube.measures["time_ns"] ?? [];
  const sorted = times.filter((time) => time > 0).sort((a, b) => a - b);
  if (sorted.length === 0) return null;
  const median = quantile(sorted, 0.5);
  const [lower, upper] = fences(sorted);
  const cells = times.flatMap((timeNs, i): Cell[] => {
    if (timeNs <= 0) return [];
    const outlier = timeNs < lower || timeNs > upper;
    return [
      { gpu: gpus[i] ?? -1, iteration: iterations[i] ?? -1, timeNs, change: timeNs / median - 1, outlier },
    ];
  });
  cells.sort((a, b) => a.gpu - b.gpu || a.iteration - b.iteration);
  const furthest = cells.reduce((most, cell) => Math.max(most, Math.abs(cell.change)), 0);
  return {
    cells,
    medianNs: median,
    longestNs: sorted[sorted.length - 1] ?? median,
    shortestNs: sorted[0] ?? median,
    limit: roundLimit(furthest),
    outliers: cells.filter((cell) => cell.outlier).length,
  };
}

function fences(sorted: readonly number[]): [number, number] {
  const [low, high] = [quantile(sorted, 0.25), quantile(sorted, 0.75)];
  return [low - FENCE * (high - low), high + FENCE * (high - low)];
}

/** Quantile of sorted values, interpolated linearly. */
export function quantile(sorted: readonly number[], at: number): number {
  const place = at * (sorted.length - 1);
  const below = sorted[Math.floor(place)] ?? Number.NaN;
  const above = sorted[Math.ceil(place)] ?? below;
  return below + (above - below) * (place - Math.floor(place));
}

/** Whole percents to 5 %, fives to 20 %, tens to 100 %; a few times the median beyond that is one colour. */
function roundLimit(furthest: number): number {
  const step = furthest > 0.2 ? 0.1 : furthest > 0.05 ? 0.05 : 0.01;
  const limit = Math.ceil(furthest / step - 1e-9) * step;
  return Math.min(1, Math.max(0.01, Math.round(limit * 100) / 100));
}
