/** The tree below the selection, shared by icicle and table, and how much of it is at hand. */
import type { DataSource } from "../bridge/source.ts";
import { queryKey, rowCount, type Query } from "../model/cube.ts";
import { LEVELS, type Cube, type Filter, type Level, type Payload } from "../model/payload.ts";
import { MOST_ROWS, planLevels, remainingLevels, type Reach } from "../model/plan.ts";
import { buildTree, type Tree } from "../model/tree.ts";
import type { Questions } from "./questions.ts";
import type { Synced } from "./state.ts";

export interface Drill {
  readonly tree: Tree;
  /** What the tree is below of; the old selection while a new answer is pending. */
  readonly selection: readonly Filter[];
  /** Levels of the tree, in order. */
  readonly levels: readonly Level[];
  /** Levels that would divide it further but need a running Jupyter kernel. */
  readonly missing: readonly Level[];
  readonly pending: boolean;
  readonly failure: string | null;
}

export type DrillView = (synced: Synced) => Drill;

export function createDrill(payload: Payload, source: DataSource, questions: Questions): DrillView {
  const sizes = Object.fromEntries(
    LEVELS.map((level) => [level, payload.dictionaries[level].length]),
  ) as Record<Level, number>;
  const trees = new WeakMap<Cube, Map<string, Tree>>();
  let last: Drill | null = null;

  const treeOf = (cube: Cube, size: string): Tree => {
    const sized = trees.get(cube) ?? new Map<string, Tree>();
    trees.set(cube, sized);
    const tree = sized.get(size) ?? buildTree(cube, payload, size);
    sized.set(size, tree);
    return tree;
  };

  return ({ selection, order, size }) => {
    const remaining = remainingLevels(order, selection, sizes);
    const reach = reachOf(payload, source, selection, sizes);
    const plan = planLevels(remaining, reach);
    const wanted = answerFor(questions, reach, selection, plan.wanted);
    const state = { pending: wanted.pending, failure: wanted.failure };
    const at = (cube: Cube, levels: readonly Level[]): Drill => ({
      tree: treeOf(cube, size),
      selection,
      levels,
      missing: plan.missing,
      ...state,
    });
    const now = wanted.cube ? null : atHand(source, selection, plan.now);
    if (wanted.cube) last = at(wanted.cube, plan.wanted);
    else if (now && (plan.now.length > 0 || last === null)) last = at(now, plan.now);
    else if (last) last = { ...last, ...state };
    else last = at(emptyCube(), []);
    return last;
  };
}

/** Kernels tell families: they come along wherever that keeps the answer small. */
function answerFor(
  questions: Questions,
  reach: Reach,
  selection: readonly Filter[],
  levels: readonly Level[],
) {
  const coloured: Level[] = levels.includes("kernel") ? [...levels] : [...levels, "kernel"];
  const known = selection.some(([level]) => level === "kernel");
  const worthIt =
    !known &&
    (reach.has(coloured) || (!reach.has(levels) && reach.live && reach.rows(coloured) <= MOST_ROWS));
  return questions.answer("drill", { levels: worthIt || known ? coloured : levels, filters: selection });
}

function atHand(source: DataSource, selection: readonly Filter[], levels: readonly Level[]): Cube | null {
  const coloured: Query = {
    levels: levels.includes("kernel") ? levels : [...levels, "kernel"],
    filters: selection,
  };
  return source.peek(coloured) ?? source.peek({ levels, filters: selection });
}

function reachOf(
  payload: Payload,
  source: DataSource,
  selection: readonly Filter[],
  sizes: Readonly<Record<Level, number>>,
): Reach {
  const bounds = new Map<string, number>();
  const rows = (levels: readonly Level[]) => {
    const key = queryKey({ levels, filters: selection });
    const bound = bounds.get(key) ?? boundOfRows(payload, source, selection, sizes, levels);
    bounds.set(key, bound);
    return bound;
  };
  return { live: source.live(), has: (levels) => source.peek({ levels, filters: selection }) !== null, rows };
}

/** Rows over the levels that an exact cube knows, times the sizes of the levels it does not. */
function boundOfRows(
  payload: Payload,
  source: DataSource,
  selection: readonly Filter[],
  sizes: Readonly<Record<Level, number>>,
  levels: readonly Level[],
): number {
  const size = (level: Level) => sizes[level] + 1;
  const product = (some: readonly Level[]) => some.reduce((total, level) => total * size(level), 1);
  let bound = product(levels);
  for (const cube of payload.cubes) {
    const known = levels.filter((level) => cube.levels.includes(level));
    const filters = selection.filter(([level]) => cube.levels.includes(level));
    const answer = cube.coarse === null ? source.peek({ levels: known, filters }) : null;
    if (answer) bound = Math.min(bound, rowCount(answer) * product(levels.filter((l) => !known.includes(l))));
  }
  return bound;
}

function emptyCube(): Cube {
  return { levels: [], codes: [], measures: {}, coarse: null };
}
