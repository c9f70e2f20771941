/** Nodes of the drill-down: rows of one cube, split level by level on demand. */
import { codesOf, rowCount, sum, type Sums } from "./cube.ts";
import type { Cube, Filter, Level, Payload } from "./payload.ts";

/** A family owns a node if it has at least this share of the node's time. */
const OWNING_SHARE = 0.8;

/** Levels with an order of their own; the others are sorted by time. */
const ORDERED: readonly Level[] = ["phase", "layer", "gpu", "iteration"];

export interface Node {
  /** Null for the node that holds the whole selection. */
  readonly level: Level | null;
  readonly code: number;
  readonly rows: readonly number[];
  readonly sums: Sums;
  /** What it is drawn and sorted by. */
  readonly size: number;
  /** Its size per family; null where the cube does not know kernels. */
  readonly families: readonly number[] | null;
}

export interface Children {
  readonly level: Level;
  /** Levels below this one. */
  readonly rest: readonly Level[];
  readonly nodes: readonly Node[];
}

export interface Tree {
  readonly cube: Cube;
  readonly root: Node;
  children(node: Node, levels: readonly Level[]): Children | null;
}

export function sizeOf(node: Node): number {
  return node.size;
}

export function isOrdered(level: Level): boolean {
  return ORDERED.includes(level);
}

/** Build the tree over a cube; children are found when asked for and then remembered. */
export function buildTree(cube: Cube, payload: Payload, measure = "time_ns"): Tree {
  const families = familyOfRows(cube, payload);
  const make = (level: Level | null, code: number, rows: readonly number[]): Node => {
    const sums = sum(cube, rows);
    const parts = families && familySizes(cube, measure, families, rows, payload.families.length);
    return { level, code, rows, sums, size: sums[measure] ?? 0, families: parts };
  };
  const root = make(
    null,
    -1,
    Array.from({ length: rowCount(cube) }, (_, row) => row),
  );
  const known = new Map<Node, Map<string, Children | null>>();
  const children = (node: Node, levels: readonly Level[]): Children | null => {
    const mine = known.get(node) ?? new Map<string, Children | null>();
    known.set(node, mine);
    const key = levels.join();
    const found = mine.get(key);
    if (found !== undefined) return found;
    const answer = split(cube, node, levels, make);
    mine.set(key, answer);
    return answer;
  };
  return { cube, root, children };
}

type Make = (level: Level, code: number, rows: readonly number[]) => Node;

/** Children at the first level that means something here: one where not all values are null. */
function split(cube: Cube, node: Node, levels: readonly Level[], make: Make): Children | null {
  const [level, ...rest] = levels;
  if (level === undefined) return null;
  const column = codesOf(cube, level);
  if (column === null) return split(cube, node, rest, make);
  const groups = new Map<number, number[]>();
  for (const row of node.rows) {
    const code = column[row] ?? -1;
    const group = groups.get(code);
    if (group) group.push(row);
    else groups.set(code, [row]);
  }
  if (groups.size === 0) return null;
  if (groups.size === 1 && groups.has(-1)) return split(cube, node, rest, make);
  const nodes = [...groups].map(([code, rows]) => make(level, code, rows));
  nodes.sort(isOrdered(level) ? byCode : bySize);
  return { level, rest, nodes };
}

const byCode = (a: Node, b: Node) => Number(a.code < 0) - Number(b.code < 0) || a.code - b.code;
const bySize = (a: Node, b: Node) => sizeOf(b) - sizeOf(a) || byCode(a, b);

function familyOfRows(cube: Cube, payload: Payload): number[] | null {
  const kernels = codesOf(cube, "kernel");
  if (kernels === null) return null;
  const place = new Map(payload.families.map((family, i) => [family.name, i]));
  const ofKernel = payload.dictionaries.kernel.map((entry) => place.get(entry.family ?? "") ?? -1);
  return kernels.map((code) => ofKernel[code] ?? -1);
}

function familySizes(
  cube: Cube,
  measure: string,
  families: number[],
  rows: readonly number[],
  count: number,
): number[] {
  const times = new Array<number>(count).fill(0);
  const time = cube.measures[measure] ?? [];
  for (const row of rows) {
    const family = families[row] ?? -1;
    if (family >= 0) times[family] = (times[family] ?? 0) + (time[row] ?? 0);
  }
  return times;
}

/** The family that owns the node, or -1 if it is a mixture or unknown. */
export function owningFamily(node: Node): number {
  const total = sizeOf(node);
  if (!node.families || total <= 0) return -1;
  return node.families.findIndex((time) => time >= OWNING_SHARE * total);
}

/** Filters that lead to the node: the selection plus the levels on the way. */
export function pathTo(node: Node, above: readonly Filter[]): Filter[] {
  return node.level === null ? [...above] : [...above, [node.level, node.code]];
}
