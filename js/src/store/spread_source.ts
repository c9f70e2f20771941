/** Sums per iteration of the parts of the selection, to tell how much they vary. */
import type { Cube, Filter, Level, Payload } from "../model/payload.ts";
import { spreadOf, type SpreadOf } from "../model/spread.ts";
import type { Drill } from "./drill.ts";
import type { Questions } from "./questions.ts";

/** More rows than this are not worth one column; then only the outer rows have it. */
const MOST_CELLS = 40_000;
/** Levels of the rows of the table, and of their parts. */
const DEPTH = 2;

export interface Spreads {
  /** Changes when an answer has come. */
  readonly cube: Cube | null;
  of(filters: readonly Filter[]): number | null;
}

export function createSpreads(payload: Payload, questions: Questions): (drill: Drill) => Spreads {
  const known = new WeakMap<Cube, SpreadOf>();
  const size = (level: Level) => payload.dictionaries[level].length + 1;
  return ({ selection, levels }) => {
    const varies = payload.instances.iterations > 1 && !selection.some(([level]) => level === "iteration");
    if (!varies) return { cube: null, of: () => null };
    let taken: readonly Level[] = levels.filter((level) => level !== "iteration").slice(0, DEPTH);
    while (taken.reduce((cells, level) => cells * size(level), size("iteration")) > MOST_CELLS)
      taken = taken.slice(0, -1);
    const query = { levels: [...taken, "iteration" as const], filters: selection };
    const { cube } = questions.answer("spread", query);
    if (!cube) return { cube: null, of: () => null };
    const found = known.get(cube) ?? spreadOf(cube, payload.instances.iterations);
    known.set(cube, found);
    const fixed = new Set(selection.map(([level]) => level));
    return {
      cube,
      of: (filters) => {
        const path = filters.filter(([level]) => !fixed.has(level));
        return path.every(([level]) => taken.includes(level)) ? found(path) : null;
      },
    };
  };
}
