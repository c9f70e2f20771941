/** What the colours of the icicle mean: families with their shares, or the ends of a scale. */
import { rampGradient } from "../model/colour.ts";
import { metricText, percent } from "../model/format.ts";
import { sentence } from "../model/names.ts";
import type { Context } from "./context.ts";
import { changeGuard, el, replaceChildren } from "./element.ts";
import { composition, type Scale } from "./paint.ts";

export interface Legend {
  readonly element: HTMLElement;
  draw(scale: Scale | null): void;
}

export function legendView(context: Context): Legend {
  const element = el("div", { class: "cj-legend", "data-testid": "legend" });
  const changed = changeGuard();
  return {
    element,
    draw: (scale) => {
      const { tree } = context.drill();
      if (!changed(scale, tree, context.theme())) return;
      const coarse = tree.cube.coarse
        ? el("span", { "data-testid": "coarse" }, sentence(tree.cube.coarse))
        : null;
      replaceChildren(element, ...(scale ? ramp(context, scale) : families(context)), coarse);
    },
  };
}

function families(context: Context): HTMLElement[] {
  const parts = composition(context.payload, context.theme(), context.drill().tree.root);
  parts.sort((a, b) => b.share - a.share);
  return parts.map(({ title, share, fill }) =>
    el("span", {}, el("i", { style: `background:${fill}` }), `${title} ${percent(100 * share)}`),
  );
}

function ramp({ theme, payload }: Context, { metric, low, high, diverging }: Scale): HTMLElement[] {
  if (!Number.isFinite(low) || !Number.isFinite(high))
    return [el("span", {}, `${metric.title} is not defined here`)];
  const bar = el("i", {
    class: "ramp",
    style: `background:${rampGradient(diverging ? "diverging" : "sequential", theme())}`,
  });
  const ends = [metricText(low, metric.unit), metricText(high, metric.unit)];
  const against = diverging && payload.compare ? ` against ${payload.compare.title}` : "";
  return [
    el(
      "span",
      {},
      `${metric.title}${against} ${ends[0] ?? ""}`,
      bar,
      `${diverging ? "+" : ""}${ends[1] ?? ""}`,
    ),
  ];
}
