import { expect, test } from "vitest";
import { outlineOf, type OutlineOptions } from "../../src/model/outline.ts";
import { buildTree, sizeOf } from "../../src/model/tree.ts";
import type { Cube } from "../../src/model/payload.ts";
import { buildPayload, fullCube } from "../payload.ts";

const payload = buildPayload();
const tree = buildTree(fullCube(), payload);
const options: OutlineOptions = {
  sort: null,
  showAll: false,
  searching: false,
  value: ({ node }) => sizeOf(node),
  name: ({ path }) => String(path.at(-1)?.[1]),
  matches: () => true,
};

const places = (rows: readonly { path: readonly (readonly [string, number])[] }[]) =>
  rows.map(({ path }) => path.at(-1)?.[1]);

test("few rows come with their largest parts, phases longest first", () => {
  const outline = outlineOf(tree, ["phase", "op", "kernel"], options);
  expect(outline.nested).toBe(true);
  expect(outline.rows[0]).toMatchObject({ depth: 0, path: [["phase", 1]] });
  expect(outline.rows[1]).toMatchObject({
    depth: 1,
    path: [
      ["phase", 1],
      ["op", 0],
    ],
  });
  expect(places(outline.rows.filter(({ depth }) => depth === 0))).toEqual([1, 0, 2]);
});

test("what is shown of many parts are the largest, in their order", () => {
  const times = [9, 1, 2, 8, 3, 7, 6, 10];
  const cube: Cube = {
    levels: ["phase", "layer"],
    codes: [times.map(() => 0), times.map((_, i) => i)],
    measures: { time_ns: times },
    coarse: null,
  };
  const { rows, total } = outlineOf(buildTree(cube, payload), ["phase", "layer"], options);
  expect(places(rows.filter(({ depth }) => depth === 1))).toEqual([0, 3, 5, 6, 7]);
  expect(total).toBe(9);
});

test("levels with an order keep it until one sorts", () => {
  expect(places(outlineOf(tree, ["iteration"], options).rows)).toEqual([0, 1, 2]);
  const byTime = outlineOf(tree, ["iteration"], { ...options, sort: { byName: false, descending: true } });
  expect(places(byTime.rows)[0]).toBe(2);
});

test("rows without a value come last in either direction", () => {
  const value: OutlineOptions["value"] = ({ node }) => (node.code === 1 ? null : node.code);
  for (const descending of [true, false]) {
    const rows = places(
      outlineOf(tree, ["op"], { ...options, value, sort: { byName: false, descending } }).rows,
    );
    expect(rows.at(-1)).toBe(1);
    expect(rows[0]).toBe(descending ? 3 : 0);
  }
});

test("long lists are cut until one asks for all", () => {
  const codes = Array.from({ length: 30 }, (_, i) => i);
  const cube: Cube = {
    levels: ["op"],
    codes: [codes],
    measures: { time_ns: codes.map((i) => 100 - i) },
    coarse: null,
  };
  const long = buildTree(cube, payload);
  expect(outlineOf(long, ["op"], options)).toMatchObject({ total: 30, rows: { length: 12 } });
  expect(outlineOf(long, ["op"], { ...options, showAll: true }).rows).toHaveLength(30);
});

test("a search keeps matches, and what they are part of", () => {
  const matches: OutlineOptions["matches"] = ({ path }) =>
    path.at(-1)?.[0] === "op" && path.at(-1)?.[1] === 2;
  const { rows } = outlineOf(tree, ["phase", "op", "kernel"], { ...options, searching: true, matches });
  expect(rows.map(({ path }) => path.length)).toEqual([1, 2, 1, 2]);
});

test("nothing below is no rows", () => {
  expect(outlineOf(tree, [], options)).toEqual({ level: null, rows: [], total: 0, nested: false });
});
