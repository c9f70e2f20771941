/** Fills of nodes: the family that owns them, the mixture they are, or a metric. */
import { diverging, familyColour, inkOn, sequential, type Theme } from "../model/colour.ts";
import { isIntensive } from "../model/metrics.ts";
import type { Filter, Metric, Payload } from "../model/payload.ts";
import { owningFamily, sizeOf, type Node } from "../model/tree.ts";
import type { Context } from "./context.ts";
import { metricOf } from "./node_text.ts";

export interface Part {
  readonly family: string;
  readonly title: string;
  readonly share: number;
  readonly fill: string;
}

/** Families of a node by time, largest first. */
export function composition(payload: Payload, theme: Theme, node: Node): Part[] {
  const total = sizeOf(node);
  if (!node.families || total <= 0) return [];
  const parts = payload.families.map(({ name, title }, i) => ({
    family: name,
    title,
    share: (node.families?.[i] ?? 0) / total,
    fill: familyColour(theme, name),
  }));
  return parts.filter((part) => part.share > 0);
}

/** The colour of the family that owns the node, or null. */
export function ownColour(payload: Payload, theme: Theme, node: Node): string | null {
  const family = payload.families[owningFamily(node)];
  return family ? familyColour(theme, family.name) : null;
}

/** Background of a swatch or bar in HTML: one colour, or the mixture side by side. */
export function background(payload: Payload, theme: Theme, node: Node, neutral: string): string {
  const own = ownColour(payload, theme, node);
  if (own) return own;
  const parts = composition(payload, theme, node);
  if (parts.length === 0) return neutral;
  let at = 0;
  const stops = parts.map(({ fill, share }) => {
    const from = at;
    at += 100 * share;
    return `${fill} ${from.toFixed(2)}% ${at.toFixed(2)}%`;
  });
  return `linear-gradient(90deg, ${stops.join(", ")})`;
}

/** Metrics that can colour nodes of very different size: those that do not add up. */
export function colourMetrics(context: Context): Metric[] {
  return context.metrics.filter(isIntensive);
}

export interface Scale {
  /** Symmetric around 0, with a neutral middle. */
  readonly diverging: boolean;
  readonly metric: Metric;
  readonly low: number;
  readonly high: number;
  fill(sums: Node["sums"], filters: readonly Filter[]): { fill: string; ink: string } | null;
}

/** A scale over the values that the given nodes have; percentages start at 0. */
export function colourScale(
  context: Context,
  metric: Metric,
  nodes: readonly { readonly node: Node; readonly filters: readonly Filter[] }[],
): Scale {
  const values = nodes
    .map(({ node, filters }) => metricOf(context, metric, node.sums, filters))
    .filter((value): value is number => value !== null);
  const both = metric.diverging === true;
  const furthest = symmetricLimit(values);
  const low = both ? -furthest : metric.unit === "%" ? 0 : Math.min(...values);
  const high = both ? furthest : Math.max(...values);
  const fill = (sums: Node["sums"], filters: readonly Filter[]) => {
    const value = metricOf(context, metric, sums, filters);
    if (value === null) return null;
    const ramp = both ? diverging : sequential;
    const colour = ramp(context.theme(), high > low ? (value - low) / (high - low) : 0.5);
    return { fill: colour, ink: inkOn(colour) };
  };
  return { metric, low, high, fill, diverging: both };
}

/** A round end of the scale; what is beyond 50 % has one colour. */
function symmetricLimit(values: readonly number[]): number {
  const furthest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return furthest > 20 ? Math.min(50, 10 * Math.ceil(furthest / 10)) : Math.max(1, Math.ceil(furthest));
}
