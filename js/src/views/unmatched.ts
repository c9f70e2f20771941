/** What only one of two compared traces has: matched by phase, layer and op. */
import { count, time } from "../model/format.ts";
import type { Unmatched } from "../model/payload.ts";
import { fromLabels } from "../model/selection.ts";
import type { Context, View } from "./context.ts";
import { el } from "./element.ts";

/** Null where nothing is compared. */
export function unmatchedView(context: Context): View | null {
  const { compare } = context.payload;
  if (!compare) return null;
  const title = el("div", { class: "cj-h", role: "heading", "aria-level": 3 }, "Not matched");
  const element = el(
    "section",
    { class: "cj-panel cj-unmatched", "aria-label": "Not matched", "data-testid": "unmatched" },
    el("header", {}, title, el("p", {}, "by phase, layer and op, per iteration and GPU")),
    side(context, "Only here", compare.only_here, true),
    side(context, `Only in ${compare.title}`, compare.only_there, false),
  );
  return { element, draw: () => undefined };
}

function side(context: Context, title: string, part: Unmatched, here: boolean): HTMLElement {
  if (part.count === 0) return el("p", { class: "cj-side" }, `${title}: nothing`);
  const rows = part.rows.map(({ label, ns, selection }) => {
    const go = () => context.select(fromLabels(context.payload, selection));
    const name = here ? el("button", { onclick: go }, label) : el("span", {}, label);
    return el("li", {}, name, el("span", { class: "num" }, time(ns)));
  });
  const rest = part.count - rows.length;
  return el(
    "details",
    { class: "cj-side", open: part.count <= 6 },
    el("summary", {}, `${title}: ${count(part.count)} parts, ${time(part.ns)}`),
    el("ul", {}, ...rows, rest > 0 ? el("li", { class: "dim" }, `and ${count(rest)} more`) : null),
  );
}
