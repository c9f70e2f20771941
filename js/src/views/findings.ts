/** What was found out about the run; a click selects the evidence. */
import { fromLabels, sameSelection } from "../model/selection.ts";
import type { Context, View } from "./context.ts";
import { changeGuard, el } from "./element.ts";

/** Null where nothing was looked for. */
export function findingsView(context: Context): View | null {
  const { findings } = context.payload;
  if (!findings?.length) return null;
  const buttons = findings.map((finding) => {
    const filters = fromLabels(context.payload, finding.selection);
    const on = () => sameSelection(context.store.get().synced.selection, filters);
    const toggle = () => context.select(on() ? [] : filters);
    const element = el(
      "button",
      {
        class: "cj-finding",
        "data-testid": "finding",
        title: finding.evidence || null,
        onclick: toggle,
      },
      el("b", {}, finding.value),
      el("span", {}, el("strong", {}, finding.title), finding.detail ? ` ${finding.detail}` : ""),
    );
    return { element, on };
  });
  const title = el("div", { class: "cj-h", role: "heading", "aria-level": 3 }, "Findings");
  const element = el(
    "section",
    { class: "cj-panel cj-find", "aria-label": "Findings", "data-testid": "findings" },
    el("header", {}, title, el("p", {}, "largest first; a click shows the evidence")),
    el("div", { class: "cj-findings" }, ...buttons.map((button) => button.element)),
  );
  const changed = changeGuard();
  return {
    element,
    draw: ({ synced }) => {
      if (!changed(synced.selection)) return;
      for (const { element: button, on } of buttons) button.setAttribute("aria-pressed", String(on()));
    },
  };
}
