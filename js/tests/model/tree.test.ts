import { expect, test } from "vitest";
import { rollUp, sum } from "../../src/model/cube.ts";
import { evaluate, withPseudoMeasures } from "../../src/model/metrics.ts";
import { buildTree, owningFamily, sizeOf, type Node } from "../../src/model/tree.ts";
import type { Level } from "../../src/model/payload.ts";
import { buildPayload, fullCube } from "../payload.ts";

const payload = buildPayload();
const LEVELS: Level[] = ["phase", "op", "layer", "kernel"];

function treeOver(...levels: Level[]) {
  return buildTree(rollUp(fullCube(), { levels, filters: [] }), payload);
}

function child(node: Node | undefined, levels: readonly Level[], code: number): Node | undefined {
  return node && tree.children(node, levels)?.nodes.find((each) => each.code === code);
}

const tree = treeOver(...LEVELS);

test("children add up to their parent, at every level", () => {
  const check = (node: Node, levels: readonly Level[]) => {
    const below = tree.children(node, levels);
    if (!below) return;
    for (const [name, total] of Object.entries(node.sums)) {
      const parts = below.nodes.reduce((all, each) => all + (each.sums[name] ?? 0), 0);
      expect(parts).toBeCloseTo(total, 3);
    }
    for (const each of below.nodes) check(each, below.rest);
  };
  check(tree.root, LEVELS);
  expect(tree.root.sums).toEqual(sum(fullCube()));
});

test("a metric of a node is the metric of its children's summed measures", () => {
  const overlap = payload.metrics.find(({ name }) => name === "overlap");
  const below = tree.children(tree.root, LEVELS);
  const sums: Record<string, number> = {};
  for (const node of below?.nodes ?? []) {
    for (const [name, value] of Object.entries(node.sums)) sums[name] = (sums[name] ?? 0) + value;
  }
  expect(overlap && evaluate(overlap, withPseudoMeasures(payload, sums, []))).toBeCloseTo(50, 9);
});

test("phases keep their order, ops come longest first", () => {
  const phases = tree.children(tree.root, LEVELS);
  expect(phases?.nodes.map(({ code }) => code)).toEqual([0, 1, 2]);
  const ops = phases?.nodes[0] && tree.children(phases.nodes[0], phases.rest);
  expect(ops?.nodes.map(({ code }) => code)).toEqual([0, 1, 2]);
});

test("a level where everything is null is passed over", () => {
  const optimizer = child(tree.root, LEVELS, 2);
  const op = child(optimizer, ["op", "layer", "kernel"], 3);
  expect(op && tree.children(op, ["layer", "kernel"])?.level).toBe("kernel");
});

test("levels that the cube does not know are passed over", () => {
  expect(tree.children(tree.root, ["gpu", "phase"])?.level).toBe("phase");
  expect(tree.children(tree.root, ["gpu"])).toBeNull();
});

test("a family owns a node from 80 % of its time", () => {
  const forward = child(tree.root, LEVELS, 0);
  expect(forward && owningFamily(forward)).toBe(-1); // 60 % GEMM
  const gate = child(forward, ["op", "layer", "kernel"], 0);
  expect(gate && owningFamily(gate)).toBe(0);
  expect(sizeOf(tree.root)).toBeGreaterThan(0);
});

test("without kernels there are no families", () => {
  const { root } = treeOver("phase");
  expect(root.families).toBeNull();
  expect(owningFamily(root)).toBe(-1);
});
