/** Evaluates metrics from the table in the payload; no formula is written here. */
import type { Sums } from "./cube.ts";
import type { Filter, Metric, Payload } from "./payload.ts";

/** GPUs times iterations that are left when some of these levels are fixed. */
export function instances(payload: Payload, filters: readonly Filter[]): number {
  const fixed = (level: string) => filters.some(([name]) => name === level);
  const gpus = fixed("gpu") ? 1 : Math.max(1, payload.instances.gpus);
  const iterations = fixed("iteration") ? 1 : Math.max(1, payload.instances.iterations);
  return gpus * iterations;
}

/** Sums of a node, completed by the pseudo-measures that metrics may name. */
export function withPseudoMeasures(
  payload: Payload,
  sums: Sums,
  filters: readonly Filter[],
  other: number | null = null,
): Sums {
  const each = instances(payload, filters);
  return {
    ...sums,
    ...(other === null ? {} : { time_each_ns: (sums["time_ns"] ?? 0) / each, other_time_each_ns: other }),
    instances: each,
    total_time_ns: payload.totals["time_ns"] ?? 0,
    one: 1,
  };
}

/** The metric's value, or null where a measure is missing or the denominator is 0. */
export function evaluate(metric: Metric, sums: Sums): number | null {
  const above = combine(metric.numerator, sums);
  const below = combine(metric.denominator, sums);
  if (above === null || below === null || below === 0) return null;
  return (metric.unit === "%" ? 100 : 1) * (above / below);
}

function combine(coefficients: Readonly<Record<string, number>>, sums: Sums): number | null {
  let total = 0;
  for (const [name, factor] of Object.entries(coefficients)) {
    const value = sums[name];
    if (value === undefined) return null;
    total += factor * value;
  }
  return total;
}

/** Metrics that mean something for this recording, in its words. */
export function availableMetrics(payload: Payload): Metric[] {
  if (payload.device_kind === "gpu") return [...payload.metrics];
  const able = payload.metrics.filter((metric) => metric.needs !== "gpu");
  return able.map((metric) => (metric.name === "kernels" ? { ...metric, ...OPERATORS } : metric));
}

/** Without a GPU, operators on the CPU stand in for kernels. */
const OPERATORS = { title: "CPU operators", meaning: "CPU operators per iteration and CPU" };

/** True for ratios of sums, which do not grow with the amount of work (share of a total is not one). */
export function isIntensive(metric: Metric): boolean {
  if (metric.over) return false;
  if (metric.diverging) return metric.unit === "%";
  const pseudo = ["instances", "total_time_ns", "one"];
  return Object.keys(metric.denominator).some((name) => !pseudo.includes(name));
}
