import { expect, test } from "vitest";
import { rollUp } from "../../src/model/cube.ts";
import { quantile, variationOf } from "../../src/model/variation.ts";
import { fullCube } from "../payload.ts";

const cube = rollUp(fullCube(), { levels: ["gpu", "iteration"], filters: [] });

test("times are compared with the median and the slow cell is marked", () => {
  const variation = variationOf(cube);
  expect(variation?.medianNs).toBe(125e6);
  expect(variation?.cells).toHaveLength(6);
  expect(variation?.cells.filter(({ outlier }) => outlier)).toEqual([
    { gpu: 1, iteration: 2, timeNs: 187.5e6, change: 0.5, outlier: true },
  ]);
  expect(variation?.limit).toBe(0.5);
});

test("cells without time are no cells; no time at all is no variation", () => {
  const measures = { time_ns: [0, 4, 4] };
  const some = variationOf({
    levels: ["gpu", "iteration"],
    codes: [
      [0, 0, 1],
      [0, 1, 0],
    ],
    measures,
    coarse: null,
  });
  expect(some?.cells).toHaveLength(2);
  expect(some?.limit).toBe(0.01);
  expect(
    variationOf({
      levels: ["gpu", "iteration"],
      codes: [[0], [0]],
      measures: { time_ns: [0] },
      coarse: null,
    }),
  ).toBeNull();
});

test("quantiles are interpolated", () => {
  expect(quantile([1, 2, 3, 4], 0.5)).toBe(2.5);
  expect(quantile([7], 0.25)).toBe(7);
});
