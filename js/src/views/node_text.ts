/** Words about one node: tooltip and announcement. */
import { count, metricText, time } from "../model/format.ts";
import { evaluate, instances, withPseudoMeasures } from "../model/metrics.ts";
import { levelTitle, nameOf, shortNameOf } from "../model/names.ts";
import type { Filter, Metric } from "../model/payload.ts";
import type { Node } from "../model/tree.ts";
import type { Sums } from "../model/cube.ts";
import type { Context } from "./context.ts";
import type { TooltipText } from "./tooltip.ts";

/** The metric of a node that is reached by these filters. */
export function metricOf(
  context: Context,
  metric: Metric,
  sums: Sums,
  filters: readonly Filter[],
): number | null {
  if (metric.over) return context.spreads().of(filters);
  return evaluate(metric, withPseudoMeasures(context.payload, sums, filters, context.other(filters)));
}

/** How large the node is by what sizes the icicle, per iteration and GPU. */
export function sizeText({ payload, store }: Context, { size }: Node, filters: readonly Filter[]): string {
  const each = size / instances(payload, filters);
  return store.get().synced.size.endsWith("_ns") ? time(each) : count(each);
}

export function nodeTooltip(
  context: Context,
  title: string,
  sums: Sums,
  filters: readonly Filter[],
  note: string | null,
): TooltipText {
  const last = filters[filters.length - 1];
  const { columns } = context.store.get().local;
  const shown = context.metrics.filter(({ name }) => columns.includes(name));
  const rows = shown.map((metric): [string, string] => [
    metric.title,
    metricText(metricOf(context, metric, sums, filters), metric.unit),
  ]);
  return { title, code: fullName(context, last), rows, note };
}

/** The full name where the shown one is shorter. */
function fullName({ payload }: Context, filter: Filter | undefined): string | null {
  if (!filter) return null;
  const full = nameOf(payload, ...filter);
  return full === shortNameOf(payload, ...filter) ? null : full;
}

export function nodeLabel(context: Context, filters: readonly Filter[], sums: Sums): string {
  const last = filters[filters.length - 1];
  const parts = last ? [`${levelTitle(context.payload, last[0])} ${nameOf(context.payload, ...last)}`] : [];
  for (const name of ["time", "share"]) {
    const metric = context.metrics.find((candidate) => candidate.name === name);
    if (metric) parts.push(metricText(metricOf(context, metric, sums, filters), metric.unit));
  }
  return parts.join(", ");
}
