/** Which levels can be drawn below a selection: at once, after asking Python, or not at all. */
import type { Filter, Level } from "./payload.ts";

/** More rows than this are not asked for at once; deeper levels wait until one zooms in. */
export const MOST_ROWS = 6000;

export interface Plan {
  /** Levels that an answer at hand covers. */
  readonly now: readonly Level[];
  /** Levels to ask for; equal to `now` if nothing is to be asked. */
  readonly wanted: readonly Level[];
  /** Levels that need a running Jupyter kernel. */
  readonly missing: readonly Level[];
}

export interface Reach {
  readonly live: boolean;
  /** True if an answer for these levels is at hand. */
  has(levels: readonly Level[]): boolean;
  /** Upper bound of the rows that an answer for these levels would have. */
  rows(levels: readonly Level[]): number;
}

/** Levels not fixed yet, in order, without those that have a single value anyway. */
export function remainingLevels(
  order: readonly Level[],
  selection: readonly Filter[],
  sizes: Readonly<Record<Level, number>>,
): Level[] {
  const divides = (level: Level) => sizes[level] > 1 || (level !== "gpu" && level !== "iteration");
  return order.filter((level) => divides(level) && !selection.some(([name]) => name === level));
}

export function planLevels(remaining: readonly Level[], reach: Reach): Plan {
  return reach.live ? planLive(remaining, reach) : planStatic(remaining, reach);
}

/** With Python at hand: the longest prefix at hand now, and what else fits into one answer. */
function planLive(remaining: readonly Level[], reach: Reach): Plan {
  const now: Level[] = [];
  for (const level of remaining) {
    if (!reach.has([...now, level])) break;
    now.push(level);
  }
  const wanted = [...now];
  for (const level of remaining.slice(now.length)) {
    if (wanted.length > 0 && reach.rows([...wanted, level]) > MOST_ROWS) break;
    wanted.push(level);
  }
  return { now, wanted, missing: [] };
}

/** Without Python: every level that the embedded cubes can add, the others are passed over. */
function planStatic(remaining: readonly Level[], reach: Reach): Plan {
  const now: Level[] = [];
  for (const level of remaining) if (reach.has([...now, level])) now.push(level);
  return { now, wanted: now, missing: remaining.filter((level) => !now.includes(level)) };
}
