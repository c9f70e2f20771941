/** The first line: what was recorded, the facts, and how good the data is. */
import type { Context, View } from "./context.ts";
import { el } from "./element.ts";

export function headerView({ payload, store }: Context): View {
  const strip = el("div", {
    class: "cj-quality",
    id: `${payload.uid}-quality`,
    "data-testid": "quality-lines",
  });
  strip.append(el("ul", {}, ...payload.quality.lines.map((line) => el("li", {}, line))));
  const chip = el(
    "button",
    {
      class: payload.quality.good ? "cj-chip good" : "cj-chip warn",
      "data-testid": "quality",
      "aria-controls": strip.id,
      onclick: () => store.setLocal({ qualityOpen: !store.get().local.qualityOpen }),
    },
    el("i"),
    payload.quality.phrase,
  );
  const facts = payload.facts.map(({ label, value }) =>
    el("div", {}, label ? el("dt", {}, label) : null, el("dd", {}, value)),
  );
  const against = payload.compare ? el("span", { class: "dim" }, ` against ${payload.compare.title}`) : null;
  const title = el("div", { class: "cj-title", role: "heading", "aria-level": 2 }, payload.title, against);
  const line = el("div", { class: "cj-head" }, title, el("dl", { class: "cj-facts" }, ...facts), chip);
  return {
    element: el("div", {}, line, strip),
    draw: ({ local }) => {
      strip.hidden = !local.qualityOpen;
      chip.setAttribute("aria-expanded", String(local.qualityOpen));
    },
  };
}
