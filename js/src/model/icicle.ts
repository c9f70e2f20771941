/** Lays the tree out as an icicle: one row per level, width by time, nothing narrower than readable. */
import { hierarchy, partition } from "d3-hierarchy";
import { isOrdered, pathTo, sizeOf, type Children, type Node, type Tree } from "./tree.ts";
import type { Filter, Level } from "./payload.ts";

/** Alike children under this width are drawn as one pale bar. */
const POOL_BELOW = 15;
/** Neighbours under this width are drawn as one sliver. */
const SLIVER = 2.5;
/** Nothing is drawn below a bar narrower than this. */
const CLOSED = 8;

export type BarKind = "node" | "pooled" | "slivers";

export interface Bar {
  readonly kind: BarKind;
  /** The node itself; for pooled bars and slivers, the node whose parts they are. */
  readonly node: Node;
  readonly level: Level | null;
  /** Filters below the selection that lead here (for pooled bars and slivers, to their owner). */
  readonly path: readonly Filter[];
  /** How many nodes are in it. */
  readonly count: number;
  readonly row: number;
  readonly x: number;
  readonly width: number;
  readonly parent: Bar | null;
}

interface Draft {
  readonly kind: BarKind;
  readonly node: Node;
  readonly level: Level | null;
  readonly path: readonly Filter[];
  readonly count: number;
  readonly value: number;
  readonly children: readonly Draft[];
}

/** Bars of the whole tree, row by row from the top. */
export function layOutIcicle(tree: Tree, levels: readonly Level[], width: number, rows: number): Bar[] {
  if (sizeOf(tree.root) <= 0) return [];
  const top = draftNode(tree, tree.root, levels, [], width, rows);
  // Sizes come from the leaves, so that no child can be wider than its parent.
  const root = hierarchy<Draft>(top, (draft) => [...draft.children]).sum((draft) =>
    draft.children.length === 0 ? draft.value : 0,
  );
  const placed = partition<Draft>().size([width, 1])(root);
  const bars = new Map<unknown, Bar>();
  placed.each((place) => {
    const { kind, node, level, path, count } = place.data;
    const parent = place.parent ? (bars.get(place.parent) ?? null) : null;
    const at = { row: place.depth, x: place.x0, width: place.x1 - place.x0, parent };
    bars.set(place, { kind, node, level, path, count, ...at });
  });
  return [...bars.values()];
}

function draftNode(
  tree: Tree,
  node: Node,
  levels: readonly Level[],
  above: readonly Filter[],
  width: number,
  rows: number,
): Draft {
  const path = pathTo(node, above);
  const below = rows > 1 && width >= CLOSED ? tree.children(node, levels) : null;
  const children = below ? draftChildren(tree, node, below, path, width, rows - 1) : [];
  return { kind: "node", node, level: node.level, path, count: 1, value: sizeOf(node), children };
}

function draftChildren(
  tree: Tree,
  owner: Node,
  below: Children,
  path: readonly Filter[],
  width: number,
  rows: number,
): Draft[] {
  if (isTooFine(below, sizeOf(owner), width)) return [pool(tree, owner, below, path, width, rows)];
  const drafts: Draft[] = [];
  let slivers: Node[] = [];
  const flush = () => {
    if (slivers.length) drafts.push(sliver(owner, below.level, slivers, path));
    slivers = [];
  };
  for (const node of below.nodes) {
    const share = sizeOf(node) / sizeOf(owner);
    if (share <= 0) continue;
    if (share * width < SLIVER) {
      slivers.push(node);
      continue;
    }
    flush();
    drafts.push(draftNode(tree, node, below.rest, path, share * width, rows));
  }
  flush();
  return drafts;
}

/** Levels of alike values become a comb when narrow; of others only when even the widest is. */
function isTooFine({ level, nodes }: Children, total: number, width: number): boolean {
  if (nodes.length < 3 || level === "phase") return false;
  if (isOrdered(level)) return width / nodes.length < POOL_BELOW;
  const widest = nodes.reduce((most, node) => Math.max(most, sizeOf(node)), 0);
  return (widest / total) * width < POOL_BELOW;
}

/** One pale bar for the whole level; the next level is laid out across it. */
function pool(
  tree: Tree,
  owner: Node,
  { level, rest, nodes }: Children,
  path: readonly Filter[],
  width: number,
  rows: number,
): Draft {
  const below = rows > 1 ? tree.children(owner, rest) : null;
  const children = below ? draftChildren(tree, owner, below, path, width, rows - 1) : [];
  return { kind: "pooled", node: owner, level, path, count: nodes.length, value: sizeOf(owner), children };
}

function sliver(owner: Node, level: Level, nodes: readonly Node[], path: readonly Filter[]): Draft {
  const value = nodes.reduce((total, node) => total + sizeOf(node), 0);
  const node = nodes.length === 1 ? (nodes[0] ?? owner) : owner;
  const single = nodes.length === 1 && node !== owner;
  const at = single ? pathTo(node, path) : path;
  return {
    kind: single ? "node" : "slivers",
    node,
    level,
    path: at,
    count: nodes.length,
    value,
    children: [],
  };
}

export type Direction = "left" | "right" | "up" | "down";

/** The bar that an arrow key leads to, or null at an edge. Slivers are passed over. */
export function neighbour(bars: readonly Bar[], from: Bar, direction: Direction): Bar | null {
  if (direction === "up") return from.parent;
  const able = bars.filter((bar) => bar.kind !== "slivers");
  if (direction === "down") return able.find((bar) => bar.parent === from) ?? null;
  const row = able.filter((bar) => bar.row === from.row).sort((a, b) => a.x - b.x);
  return row[row.indexOf(from) + (direction === "left" ? -1 : 1)] ?? null;
}
