import { expect, test } from "vitest";
import {
  availableMetrics,
  evaluate,
  instances,
  isIntensive,
  withPseudoMeasures,
} from "../../src/model/metrics.ts";
import type { Metric } from "../../src/model/payload.ts";
import { buildPayload } from "../payload.ts";

const payload = buildPayload();
const named = (name: string) => payload.metrics.find((metric) => metric.name === name) as Metric;

test("instances count what is left of GPUs and iterations", () => {
  expect(instances(payload, [])).toBe(6);
  expect(instances(payload, [["gpu", 1]])).toBe(3);
  expect(
    instances(payload, [
      ["iteration", 0],
      ["op", 1],
    ]),
  ).toBe(2);
  expect(
    instances(payload, [
      ["iteration", 0],
      ["gpu", 0],
    ]),
  ).toBe(1);
});

test("metrics are evaluated from the table", () => {
  const sums = { time_ns: 12e6, count: 4, overlap_ns: 3e6 };
  const all = withPseudoMeasures(payload, sums, []);
  expect(evaluate(named("time"), all)).toBeCloseTo(2);
  expect(evaluate(named("mean_duration"), all)).toBeCloseTo(3000);
  expect(evaluate(named("overlap"), all)).toBeCloseTo(25);
  expect(evaluate(named("share"), all)).toBeCloseTo((100 * 12e6) / (payload.totals["time_ns"] ?? 1));
});

test("a zero denominator or a measure that was not recorded is no value", () => {
  expect(evaluate(named("overlap"), { overlap_ns: 0, time_ns: 0 })).toBeNull();
  expect(evaluate(named("overlap"), { time_ns: 5 })).toBeNull();
});

test("without a GPU, GPU metrics are hidden and kernels are CPU operators", () => {
  const cpu = availableMetrics(buildPayload({ device_kind: "cpu" }));
  expect(cpu.map(({ name }) => name)).not.toContain("overlap");
  expect(cpu.find(({ name }) => name === "kernels")?.title).toBe("CPU operators");
  expect(availableMetrics(payload)).toEqual(payload.metrics);
});

test("only ratios that do not add up can colour nodes of different size", () => {
  expect(payload.metrics.filter(isIntensive).map(({ name }) => name)).toEqual(["mean_duration", "overlap"]);
});
