import { expect, test } from "vitest";
import type { Cube } from "../../src/model/payload.ts";
import { otherTime } from "../../src/model/comparison.ts";
import { spreadOf } from "../../src/model/spread.ts";
import { besideSlice, nameIn, sliceAt, sliceLabel, unpackPicture } from "../../src/model/timeline.ts";
import { rowsOf } from "../../src/model/timeline_rows.ts";
import { clampWindow, panBy, spanOf, ticksOf, zoomAt } from "../../src/model/time_window.ts";
import { waterfallOf } from "../../src/model/waterfall.ts";
import { buildPayload } from "../payload.ts";
import { packedPicture } from "../picture.ts";

const picture = unpackPicture(packedPicture());

test("steps become times", () => {
  expect(picture.slices.start).toEqual([0, 100, 150, 100]);
});

test("a slice is found by lane and time, with some tolerance", () => {
  expect(sliceAt(picture, 0, 95, 4)).toBeNull();
  expect(sliceAt(picture, 0, 94, 5)).toBe(0);
  expect(sliceAt(picture, 1, 250, 0)).toBe(3);
  expect(sliceAt(picture, 0, 120, 0)).toBe(1);
});

test("slices are named by op, else by kernel; merged ones are not", () => {
  expect([0, 1, 2].map((slice) => sliceLabel(picture, slice))).toEqual(["mlp.gate", "gemm", ""]);
  expect(nameIn(picture, "phase", 2)).toBeNull();
  expect(nameIn(picture, "layer", 0)).toBe("layers.0");
});

test("neighbours stay in their lane", () => {
  expect(besideSlice(picture, 0, 1)).toBe(1);
  expect(besideSlice(picture, 2, 1)).toBeNull();
  expect(besideSlice(picture, 0, -1)).toBeNull();
});

test("rows stack lanes, launches and an axis, and no two overlap", () => {
  const options = { gpus: [0], scales: [], gpuTitle: (gpu: number) => `GPU ${gpu}`, cpu: false };
  const { rows, height } = rowsOf(picture, options);
  expect(rows.map(({ label }) => label)).toEqual(["Compute", "Communication", "CPU launches", ""]);
  rows.slice(1).forEach((row, i) => {
    const above = rows[i];
    expect(row.y).toBeGreaterThanOrEqual((above?.y ?? 0) + (above?.height ?? 0));
  });
  expect(height).toBeGreaterThan(rows.at(-1)?.y ?? 0);
});

const limits = { from: 0, to: 1_000_000 };

test("zooming keeps the time under the pointer and the limits", () => {
  const near = zoomAt(limits, 250_000, 0.5, limits);
  expect(near).toEqual({ from: 125_000, to: 625_000 });
  expect(zoomAt(near, 250_000, 10, limits)).toEqual(limits);
  expect(spanOf(zoomAt(near, 250_000, 1e-9, limits))).toBeGreaterThanOrEqual(500);
});

test("panning stops at the ends", () => {
  expect(panBy({ from: 0, to: 1000 }, -5, limits)).toEqual({ from: 0, to: 1000 });
  expect(panBy({ from: 999_000, to: 1_000_000 }, 5000, limits)).toEqual({ from: 999_000, to: 1_000_000 });
  expect(clampWindow({ from: -10, to: 2_000_000 }, limits)).toEqual(limits);
});

test("ticks are round times in one unit", () => {
  const labels = ticksOf({ from: 0, to: 10_000_000 }, 5, 0).map(({ label }) => label);
  expect(labels).toEqual(["0", "2", "4", "6", "8", "10"].map((text) => `${text}\u202fms`));
});

test("the spread is the deviation over iterations, those without a kernel too", () => {
  const cube: Cube = {
    levels: ["op", "iteration"],
    codes: [
      [0, 0, 1],
      [0, 1, 0],
    ],
    measures: { time_ns: [10, 30, 8] },
    coarse: null,
  };
  const spread = spreadOf(cube, 2);
  expect(spread([["op", 0]])).toBeCloseTo(50);
  expect(spread([["op", 1]])).toBeCloseTo(100);
  expect(spread([["op", 7]])).toBeNull();
});

test("parts, their sums and the wall time add up", () => {
  const parts = buildPayload().parts ?? [];
  const sums = { compute: 70, exposed_communication: 0, memory: 10, host_late: 15, launch_latency: 5 };
  const lines = waterfallOf(parts, sums, 10);
  expect(lines.map(({ name, ns }) => [name, ns])).toEqual([
    ["compute", 7],
    ["memory", 1],
    ["busy", 8],
    ["host_late", 1.5],
    ["launch_latency", 0.5],
    ["idle", 2],
    ["wall", 10],
  ]);
});

test("the other trace's time is matched by phase, layer and op only", () => {
  const cube: Cube = {
    levels: ["phase", "op"],
    codes: [
      [0, 0, 1],
      [0, 1, -3],
    ],
    measures: { time_ns: [40, 60, 20] },
    coarse: null,
  };
  const nothing = { count: 0, ns: 0, rows: [] };
  const instances = { gpus: 2, iterations: 5 };
  const compare = { title: "other", instances, cubes: [cube], only_here: nothing, only_there: nothing };
  const other = otherTime(buildPayload({ compare }));
  expect(other([])).toBe(12);
  expect(other([["phase", 0]])).toBe(10);
  expect(
    other([
      ["phase", 0],
      ["op", 1],
    ]),
  ).toBe(6);
  expect(other([["gpu", 0]])).toBeNull();
  expect(otherTime(buildPayload())([])).toBeNull();
});
