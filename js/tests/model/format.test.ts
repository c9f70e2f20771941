import { expect, test } from "vitest";
import {
  change,
  columnFormat,
  count,
  metricText,
  percent,
  significant,
  time,
} from "../../src/model/format.ts";

const NB = "\u202f";

test.each([
  [163.4, "163"],
  [66.94, "66.9"],
  [5.6249, "5.62"],
  [99.96, "100"],
  [999.6, "1\u202f000"],
  [9.996, "10.0"],
  [1416.2, "1\u202f416"],
  [-2.5, "\u22122.50"],
  [0, "0"],
  [0.000123, "0.000123"],
  [Number.NaN, "\u2013"],
])("%d has three significant digits", (value, text) => {
  expect(significant(value)).toBe(text);
});

test("times pick their unit by size", () => {
  expect(time(786_000_000)).toBe(`786${NB}ms`);
  expect(time(1_230)).toBe(`1.23${NB}µs`);
  expect(time(2.5e9)).toBe(`2.50${NB}s`);
  expect(time(999_960)).toBe(`1.00${NB}ms`);
  expect(time(0)).toBe(`0${NB}ms`);
  expect(time(Number.NaN)).toBe("\u2013");
});

test("shares have one decimal and do not pretend to be nothing", () => {
  expect(percent(20.72)).toBe(`20.7${NB}%`);
  expect(percent(100)).toBe(`100${NB}%`);
  expect(percent(0.01)).toBe(`<0.1${NB}%`);
  expect(percent(0)).toBe(`0.0${NB}%`);
});

test("changes are signed, zero is not", () => {
  expect(change(0.074)).toBe(`+7.4${NB}%`);
  expect(change(-0.002)).toBe(`\u22120.2${NB}%`);
  expect(change(0.0001)).toBe(`0.0${NB}%`);
});

test("counts are whole where they are", () => {
  expect(count(614)).toBe("614");
  expect(count(12345)).toBe(`12${NB}345`);
  expect(count(2.5)).toBe("2.50");
});

test("a metric without a value is a dash", () => {
  expect(metricText(null, "ms")).toBe("\u2013");
  expect(metricText(0.5, "ms")).toBe(`500${NB}µs`);
  expect(metricText(12.34, "TFLOP/s")).toBe(`12.3${NB}TFLOP/s`);
});

test("a column has one unit, chosen by its largest value", () => {
  const column = columnFormat("ms", [0.5, 0.0123, null]);
  expect(column.unit).toBe("µs");
  expect([0.5, 0.0123, null].map((value) => column.cell(value))).toEqual(["500", "12.3", "\u2013"]);
  expect(columnFormat("ms", [1500]).unit).toBe("s");
  expect(columnFormat("%", [1]).cell(1)).toBe("1.0");
  expect(columnFormat("", [1]).cell(32)).toBe("32");
});
