import { expect, test } from "vitest";
import { perInstance, selectionName } from "../../src/model/names.ts";
import { readPayload } from "../../src/model/payload.ts";
import { completeOrder, fix, fromLabels, moved, release, toLabels } from "../../src/model/selection.ts";
import type { Filter } from "../../src/model/payload.ts";
import { buildPayload } from "../payload.ts";

const payload = buildPayload();
const SELECTION: Filter[] = [
  ["phase", 1],
  ["layer", -1],
  ["gpu", 1],
  ["iteration", 2],
];

test("labels go to Python and back", () => {
  const labels = toLabels(payload, SELECTION);
  expect(labels).toEqual([
    ["phase", "backward"],
    ["layer", null],
    ["gpu", 1],
    ["iteration", 4],
  ]);
  expect(fromLabels(payload, labels)).toEqual(SELECTION);
});

test("what this recording does not hold is left out", () => {
  expect(
    fromLabels(payload, [
      ["op", "nope"],
      ["colour", "red"],
      ["gpu", 7],
      ["phase", "forward"],
    ]),
  ).toEqual([["phase", 0]]);
});

test("fixing a level again replaces it", () => {
  expect(
    fix(
      [
        ["gpu", 0],
        ["op", 1],
      ],
      [["gpu", 1]],
    ),
  ).toEqual([
    ["op", 1],
    ["gpu", 1],
  ]);
  expect(
    release(
      [
        ["gpu", 0],
        ["op", 1],
      ],
      ["gpu", "iteration"],
    ),
  ).toEqual([["op", 1]]);
});

test("an order given by Python is completed", () => {
  expect(completeOrder(payload, ["gpu", "nope", "gpu"])).toEqual([
    "gpu",
    "phase",
    "op",
    "layer",
    "kernel",
    "iteration",
  ]);
});

test("levels move within the order and not out of it", () => {
  expect(moved(["phase", "op", "layer"], "layer", 0)).toEqual(["layer", "phase", "op"]);
  expect(moved(["phase", "op", "layer"], "phase", 1)).toEqual(["op", "phase", "layer"]);
  expect(moved(["phase", "op", "layer"], "layer", 9)).toEqual(["phase", "op", "layer"]);
});

test("a selection is named, and so is what a number is per", () => {
  expect(selectionName(payload, [])).toBe("All GPUs and iterations");
  expect(selectionName(payload, SELECTION)).toBe("backward · no layer · GPU 1 · iteration 4");
  expect(perInstance(payload)).toBe("per iteration and GPU");
  expect(perInstance(payload, [["gpu", 1]])).toBe("per iteration");
  expect(perInstance(payload, SELECTION)).toBe("in total");
});

test("data of another version is refused in words", () => {
  expect(() => readPayload({ ...payload, version: 2 })).toThrow("version 1, not 2");
  expect(() => readPayload(null)).toThrow("version");
  expect(() => readPayload({ version: 1 })).toThrow("lacks");
});
