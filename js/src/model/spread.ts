/** How much the time of a row differs between iterations. */
import { codesOf, rowCount } from "./cube.ts";
import type { Cube, Filter } from "./payload.ts";

/** Standard deviation over iterations in percent of their mean; null where there is no time. */
export type SpreadOf = (path: readonly Filter[]) => number | null;

/** `iterations` counts those without a kernel too. */
export function spreadOf(cube: Cube, iterations: number): SpreadOf {
  const place = codesOf(cube, "iteration") ?? [];
  const time = cube.measures["time_ns"] ?? [];
  return (path) => {
    const columns = path.map(([level, code]) => [codesOf(cube, level), code] as const);
    const sums = new Map<number, number>();
    for (let row = 0; row < rowCount(cube); row++) {
      if (!columns.every(([column, code]) => column?.[row] === code)) continue;
      const iteration = place[row] ?? -1;
      sums.set(iteration, (sums.get(iteration) ?? 0) + (time[row] ?? 0));
    }
    const mean = [...sums.values()].reduce((total, value) => total + value, 0) / iterations;
    if (mean <= 0 || iterations < 2) return null;
    const squares = [...sums.values()].reduce((total, value) => total + (value - mean) ** 2, 0);
    const absent = (iterations - sums.size) * mean ** 2;
    return (100 * Math.sqrt((squares + absent) / iterations)) / mean;
  };
}
