/** The selection as a path; each step leads back to it. The sum of the selection stands at its end. */
import { metricText } from "../model/format.ts";
import { levelWord, nameOf, perInstance, shortNameOf } from "../model/names.ts";
import type { Context, View } from "./context.ts";
import { changeGuard, el, replaceChildren, type Child } from "./element.ts";
import { metricOf } from "./node_text.ts";

export function crumbView(context: Context): View {
  const { payload } = context;
  const element = el("nav", { class: "cj-crumb", "aria-label": "Selection", "data-testid": "breadcrumb" });
  const changed = changeGuard();
  return {
    element,
    draw: ({ synced }) => {
      const { tree, pending, selection } = context.drill();
      if (!changed(synced.selection, tree, pending)) return;
      const steps: Child[] = [step("All", null, synced.selection.length === 0, () => context.select([]))];
      synced.selection.forEach((filter, i) => {
        const last = i === synced.selection.length - 1;
        const title = `${levelWord(payload, filter[0])} ${nameOf(payload, ...filter)}`;
        const back = () => context.select(synced.selection.slice(0, i + 1));
        steps.push(el("span", { class: "sep", "aria-hidden": "true" }, "/"));
        steps.push(step(shortNameOf(payload, ...filter), title, last, back));
      });
      // While a new answer is pending, the old sum would be wrong here.
      const stale = pending && selection !== synced.selection;
      replaceChildren(element, ...steps, stale ? null : sumOf(context));
    },
  };
}

function step(text: string, title: string | null, current: boolean, go: () => void): HTMLElement {
  if (current) return el("span", { class: "cur", "aria-current": "true", title }, text);
  return el("button", { title, onclick: go }, text);
}

function sumOf(context: Context): HTMLElement {
  const { tree, selection } = context.drill();
  const text = (name: string) => {
    const metric = context.metrics.find((candidate) => candidate.name === name);
    return metric ? metricText(metricOf(context, metric, tree.root.sums, selection), metric.unit) : "";
  };
  const what = context.payload.device_kind === "cpu" ? "operator time" : "kernel time";
  return el(
    "span",
    { class: "sum", "data-testid": "selection-sum" },
    el("b", {}, text("time")),
    ` ${what} ${perInstance(context.payload, selection)}, ${text("share")} of the run`,
    text("wall") ? el("span", { class: "cj-wall" }, wallText(text)) : null,
  );
}

/** Sums of concurrent kernels exceed the wall clock, so both are always there. */
function wallText(text: (name: string) => string): string {
  return `, wall ${text("wall")}: busy ${text("busy")}, idle ${text("idle")}`;
}
