/** Rows of the table: children of the selection; where they are few, with their largest parts. */
import { isOrdered, pathTo, sizeOf, type Node, type Tree } from "./tree.ts";
import type { Filter, Level } from "./payload.ts";

const FEW = 4;
const FLAT_ROWS = 12;

export interface Row {
  readonly node: Node;
  readonly path: readonly Filter[];
  readonly depth: 0 | 1;
}

export interface Outline {
  /** Level of the outer rows; null if there is nothing below. */
  readonly level: Level | null;
  readonly rows: readonly Row[];
  /** How many rows there are without a limit. */
  readonly total: number;
  /** True if outer rows are followed by parts of theirs. */
  readonly nested: boolean;
}

export interface OutlineOptions {
  /** Null: levels with an order of their own in that order, others by `value`, largest first. */
  readonly sort: { readonly byName: boolean; readonly descending: boolean } | null;
  readonly showAll: boolean;
  readonly searching: boolean;
  value(row: Row): number | null;
  name(row: Row): string;
  matches(row: Row): boolean;
}

export function outlineOf(tree: Tree, levels: readonly Level[], options: OutlineOptions): Outline {
  const top = tree.children(tree.root, levels);
  if (!top) return { level: null, rows: [], total: 0, nested: false };
  const outer = sorted(
    top.level,
    top.nodes.map((node) => rowOf(node, [], 0)),
    options,
  );
  const nested = top.nodes.length <= FEW && top.rest.length > 0;
  const inner = (row: Row) => (nested ? parts(tree, row, top.rest, options) : []);
  const all = outer.flatMap((row) => found(row, inner(row), options));
  const whole = { level: top.level, rows: all, total: all.length, nested };
  if (options.showAll || options.searching) return whole;
  if (!nested) return { ...whole, rows: all.slice(0, FLAT_ROWS) };
  return { ...whole, rows: outer.flatMap((row) => [row, ...largest(inner(row), partLimit(tree, row))]) };
}

function rowOf(node: Node, above: readonly Filter[], depth: 0 | 1): Row {
  return { node, path: pathTo(node, above), depth };
}

/** The row with its parts; when searching, what matches with what it is part of. */
function found(row: Row, inner: readonly Row[], options: OutlineOptions): Row[] {
  if (!options.searching || options.matches(row)) return [row, ...inner];
  const hits = inner.filter((part) => options.matches(part));
  return hits.length ? [row, ...hits] : [];
}

function parts(tree: Tree, row: Row, levels: readonly Level[], options: OutlineOptions): Row[] {
  const below = tree.children(row.node, levels);
  if (!below || below.nodes.length < 2) return [];
  return sorted(
    below.level,
    below.nodes.map((node) => rowOf(node, row.path, 1)),
    options,
  );
}

/** The longest parts, in the order they are in. */
function largest(rows: readonly Row[], limit: number): Row[] {
  const longest = [...rows].sort((a, b) => sizeOf(b.node) - sizeOf(a.node)).slice(0, limit);
  return rows.filter((row) => longest.includes(row));
}

/** Rows that matter more show more of their parts. */
function partLimit(tree: Tree, row: Row): number {
  const share = sizeOf(row.node) / sizeOf(tree.root);
  return share < 0.01 ? 0 : share > 0.3 ? 5 : 2;
}

function sorted(level: Level, rows: readonly Row[], { sort, value, name }: OutlineOptions): Row[] {
  const inOrder = isOrdered(level);
  const byName = sort ? sort.byName : inOrder && level !== "phase";
  const sign = sort?.descending === false || (!sort && byName) ? 1 : -1;
  const compare = (a: Row, b: Row) => {
    if (byName)
      return inOrder ? place(a) - place(b) : name(a).localeCompare(name(b), undefined, { numeric: true });
    return (value(a) ?? 0) - (value(b) ?? 0);
  };
  // Rows without a value come last, whichever way the others run.
  const missing = (row: Row) => Number(!byName && value(row) === null);
  return [...rows].sort((a, b) => missing(a) - missing(b) || sign * compare(a, b));
}

/** Null values come after all others. */
function place({ node }: Row): number {
  return node.code < 0 ? Number.MAX_SAFE_INTEGER : node.code;
}
