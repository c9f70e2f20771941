import { expect, test } from "vitest";
import { layOutIcicle, neighbour, type Bar } from "../../src/model/icicle.ts";
import { buildTree } from "../../src/model/tree.ts";
import type { Cube, Level } from "../../src/model/payload.ts";
import { fadedBars } from "../../src/model/search.ts";
import { buildPayload, fullCube } from "../payload.ts";

const payload = buildPayload();
const LEVELS: Level[] = ["phase", "op", "layer", "kernel"];

function bars(width: number, levels = LEVELS, rows = 6): Bar[] {
  return layOutIcicle(buildTree(fullCube(), payload), levels, width, rows);
}

const row = (all: readonly Bar[], number: number) => all.filter((bar) => bar.row === number);

test("every row is inside the one above, and the first spans the width", () => {
  const all = bars(900);
  expect(all[0]).toMatchObject({ row: 0, x: 0, width: 900, level: null });
  for (const bar of all) {
    if (!bar.parent) continue;
    expect(bar.row).toBe(bar.parent.row + 1);
    expect(bar.x).toBeGreaterThanOrEqual(bar.parent.x - 1e-6);
    expect(bar.x + bar.width).toBeLessThanOrEqual(bar.parent.x + bar.parent.width + 1e-6);
  }
});

test("widths are shares of the time", () => {
  const [forward, backward] = row(bars(900), 1);
  expect(backward?.width).toBeCloseTo(2 * (forward?.width ?? 0), 6);
});

test("alike children that would be under 15 px are one pale bar, the next level goes on below", () => {
  const narrow = bars(100, ["layer", "op"]);
  expect(row(narrow, 1).map(({ kind }) => kind)).toContain("node");
  const pooled = bars(40, ["layer", "op"]);
  const [bar] = row(pooled, 1);
  expect(bar).toMatchObject({ kind: "pooled", level: "layer", count: 5, path: [] });
  const below = row(pooled, 2);
  expect(below.every(({ parent }) => parent === bar)).toBe(true);
  expect(below.some(({ path }) => path.length === 1 && path[0]?.[0] === "op")).toBe(true);
});

test("rows are limited", () => {
  expect(Math.max(...bars(900, LEVELS, 3).map((bar) => bar.row))).toBe(2);
});

test("the path to a bar skips pooled levels", () => {
  const all = bars(900, ["phase", "op", "layer", "kernel"]);
  for (const bar of all) expect(bar.path.length).toBeLessThanOrEqual(bar.row);
  const deep = all.find((bar) => bar.level === "kernel" && bar.kind === "node");
  expect(deep?.path.at(-1)?.[0]).toBe("kernel");
});

test("neighbours too narrow to draw become one sliver and no key leads to it", () => {
  const times = [1e6, ...new Array<number>(40).fill(100)];
  const cube: Cube = {
    levels: ["op"],
    codes: [times.map((_, i) => i)],
    measures: { time_ns: times },
    coarse: null,
  };
  const all = layOutIcicle(buildTree(cube, payload), ["op"], 500, 6);
  expect(all.map(({ kind }) => kind)).toEqual(["node", "node", "slivers"]);
  expect(all[2]).toMatchObject({ count: 40 });
  expect(neighbour(all, all[1] as Bar, "right")).toBeNull();
});

test("nothing is drawn without time", () => {
  const cube: Cube = { levels: ["op"], codes: [[0]], measures: { time_ns: [0] }, coarse: null };
  expect(layOutIcicle(buildTree(cube, payload), ["op"], 500, 6)).toEqual([]);
});

test("arrow keys lead to what is seen there", () => {
  const all = bars(900);
  const [forward, backward] = row(all, 1) as [Bar, Bar];
  expect(neighbour(all, all[0] as Bar, "down")).toBe(forward);
  expect(neighbour(all, forward, "right")).toBe(backward);
  expect(neighbour(all, backward, "left")).toBe(forward);
  expect(neighbour(all, forward, "left")).toBeNull();
  expect(neighbour(all, forward, "up")).toBe(all[0]);
  expect(neighbour(all, all[0] as Bar, "up")).toBeNull();
});

test("a search leaves matches lit with what holds them and what they hold", () => {
  const all = bars(900);
  const faded = fadedBars(payload, all, "SDPA");
  const lit = all.filter((bar) => !faded.has(bar));
  expect(lit).toContain(all[0]);
  expect(lit.filter((bar) => bar.level === "op").every((bar) => bar.path.at(-1)?.[1] === 1)).toBe(true);
  expect(
    lit.some(
      (bar) => bar.level === "kernel" && bar.path.some(([level, code]) => level === "op" && code === 1),
    ),
  ).toBe(true);
  expect(fadedBars(payload, all, " ").size).toBe(0);
});
