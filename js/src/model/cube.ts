/** Filter and roll up cubes of measures; the only arithmetic on rows in the front end. */
import type { Cube, Filter, Level } from "./payload.ts";

export interface Query {
  readonly levels: readonly Level[];
  readonly filters: readonly Filter[];
  /** What is summed, if not the measures. */
  readonly of?: "parts";
}

/** Levels whose small values may be merged; sums over the other levels stay exact. */
const MERGED: readonly Level[] = ["layer", "op", "kernel"];

export type Sums = Record<string, number>;

export function rowCount(cube: Cube): number {
  return cube.codes[0]?.length ?? Object.values(cube.measures)[0]?.length ?? 0;
}

export function codesOf(cube: Cube, level: Level): readonly number[] | null {
  const at = cube.levels.indexOf(level);
  return at < 0 ? null : (cube.codes[at] ?? null);
}

/** Sum every measure over the given rows, or over all of them. */
export function sum(cube: Cube, rows?: readonly number[]): Sums {
  const sums: Sums = {};
  for (const [name, values] of Object.entries(cube.measures)) {
    let total = 0;
    if (rows) for (const row of rows) total += values[row] ?? 0;
    else for (const value of values) total += value;
    sums[name] = total;
  }
  return sums;
}

/** True if the cube keeps apart every level that the query groups or filters by. */
export function covers(cube: Cube, query: Query): boolean {
  const has = (level: Level) => cube.levels.includes(level);
  return query.levels.every(has) && query.filters.every(([level]) => has(level));
}

/**
 * True if the cube can answer the query. A coarse cube has merged small values, so it can speak
 * of a value only if that value still has rows of its own.
 */
export function answers(cube: Cube, query: Query): boolean {
  if (!covers(cube, query)) return false;
  if (cube.coarse === null) return true;
  return query.filters.every(([level, code]) => codesOf(cube, level)?.includes(code) ?? false);
}

/** The smallest cube that can answer; exact ones first, coarse ones only on request. */
export function smallestCube(cubes: readonly Cube[], query: Query, coarse: boolean): Cube | null {
  const able = cubes.filter((cube) => (coarse || cube.coarse === null) && answers(cube, query));
  able.sort((a, b) => Number(a.coarse !== null) - Number(b.coarse !== null) || rowCount(a) - rowCount(b));
  return able[0] ?? null;
}

/** Filter the rows, then sum them per combination of the query's levels, in order of appearance. */
export function rollUp(cube: Cube, query: Query): Cube {
  const keep = matchingRows(cube, query.filters);
  const columns = query.levels.map((level) => codesOf(cube, level) ?? []);
  const bases = columns.map((column) => column.reduce((most, code) => Math.max(most, code), -1) + 2);
  const groups = new Map<number, number>();
  const codes: number[][] = columns.map(() => []);
  const names = Object.keys(cube.measures);
  const sums: number[][] = names.map(() => []);
  for (const row of keep) {
    let key = 0;
    columns.forEach((column, i) => (key = key * (bases[i] ?? 1) + (column[row] ?? -1) + 1));
    let group = groups.get(key);
    if (group === undefined) {
      group = groups.size;
      groups.set(key, group);
      columns.forEach((column, i) => codes[i]?.push(column[row] ?? -1));
      for (const column of sums) column.push(0);
    }
    for (let i = 0; i < names.length; i++) addAt(sums[i], group, cube.measures[names[i] ?? ""]?.[row]);
  }
  const measures = Object.fromEntries(names.map((name, i) => [name, sums[i] ?? []]));
  const coarse = query.levels.some((level) => MERGED.includes(level)) ? cube.coarse : null;
  return { levels: [...query.levels], codes, measures, coarse };
}

function addAt(column: number[] | undefined, at: number, value: number | undefined): void {
  if (column) column[at] = (column[at] ?? 0) + (value ?? 0);
}

function matchingRows(cube: Cube, filters: readonly Filter[]): number[] {
  const rows: number[] = [];
  const wanted = filters.map(([level, code]) => [codesOf(cube, level), code] as const);
  const count = rowCount(cube);
  for (let row = 0; row < count; row++) {
    if (wanted.every(([column, code]) => column?.[row] === code)) rows.push(row);
  }
  return rows;
}

/** Same questions have the same key, whatever the order of their filters. */
export function queryKey(query: Query): string {
  const filters = query.filters.map(([level, code]) => `${level}=${code}`).sort();
  return `${query.of ?? ""}|${query.levels.join()}|${filters.join()}`;
}
