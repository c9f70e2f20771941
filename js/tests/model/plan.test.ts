import { expect, test } from "vitest";
import { planLevels, remainingLevels } from "../../src/model/plan.ts";
import type { Level } from "../../src/model/payload.ts";
import { buildPayload } from "../payload.ts";

const CUBES: Level[][] = [
  ["phase", "op", "layer", "kernel"],
  ["gpu", "iteration", "phase", "layer"],
];
const has = (levels: readonly Level[]) => CUBES.some((cube) => levels.every((level) => cube.includes(level)));
const size = 10;
const rows = (levels: readonly Level[]) => size ** levels.length;

test("without Python, levels that no cube can add are passed over", () => {
  const reach = { live: false, has, rows };
  const first = planLevels(buildPayload().order, reach);
  expect(first.now).toEqual(["phase", "op", "layer", "kernel"]);
  expect(first.missing).toEqual(["gpu", "iteration"]);
  const gpuFirst = planLevels(["gpu", "phase", "op", "layer", "kernel", "iteration"], reach);
  expect(gpuFirst.now).toEqual(["gpu", "phase", "layer", "iteration"]);
  expect(gpuFirst.missing).toEqual(["op", "kernel"]);
});

test("with Python, the levels keep their order and what is missing is asked for", () => {
  const plan = planLevels(["gpu", "phase", "op", "layer"], { live: true, has, rows });
  expect(plan.now).toEqual(["gpu", "phase"]);
  expect(plan.wanted).toEqual(["gpu", "phase", "op"]); // one more would be 10 000 rows
  expect(plan.missing).toEqual([]);
});

test("the first level is asked for however large it is", () => {
  const plan = planLevels(["kernel", "op"], { live: true, has: () => false, rows: () => 1e9 });
  expect(plan).toEqual({ now: [], wanted: ["kernel"], missing: [] });
});

test("fixed levels and a single GPU do not divide", () => {
  const sizes = { gpu: 1, iteration: 3, phase: 1, layer: 2, op: 2, kernel: 2 };
  const order: Level[] = ["gpu", "iteration", "phase", "layer", "op", "kernel"];
  expect(remainingLevels(order, [["layer", 0]], sizes)).toEqual(["iteration", "phase", "op", "kernel"]);
});
