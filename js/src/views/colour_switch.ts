/** What the icicle is coloured by. */
import type { Context, View } from "./context.ts";
import { el } from "./element.ts";
import { colourMetrics } from "./paint.ts";

export function colourSwitch(context: Context): View {
  const choices = [{ name: "family", title: "Family" }, ...colourMetrics(context)];
  const buttons = choices.map(({ name, title }) =>
    el("button", { "data-colour": name, onclick: () => context.store.setLocal({ colour: name }) }, title),
  );
  const group = el(
    "div",
    { class: "cj-seg", role: "group", "aria-label": "Colour of the icicle" },
    ...buttons,
  );
  return {
    element: el("div", { class: "cj-colour" }, el("span", { class: "cj-lab" }, "Colour"), group),
    draw: ({ local }) => {
      for (const button of buttons) {
        button.setAttribute("aria-pressed", String(button.dataset["colour"] === local.colour));
      }
    },
  };
}
