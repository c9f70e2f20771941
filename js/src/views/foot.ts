/** The last line: keys, and what the numbers cover. */
import { capital, perInstance } from "../model/names.ts";
import type { Context, View } from "./context.ts";
import { el } from "./element.ts";

export function footView({ payload }: Context): View {
  const key = (text: string) => el("kbd", {}, text);
  const hint = (words: string, ...keys: string[]) => el("span", {}, ...keys.map(key), words);
  const covered = [`Times ${perInstance(payload)}`, payload.included].filter(Boolean).join("; ");
  const element = el(
    "div",
    { class: "cj-hint" },
    hint("zoom in", "Enter"),
    hint("back", "Esc"),
    hint("move", "\u2190", "\u2191", "\u2192", "\u2193"),
    ...(payload.timeline ? [hint("zoom in time", "+", "\u2212"), hint("next kernel", "N")] : []),
    el("span", { class: "cj-sp" }),
    el("span", { class: "covered", "data-testid": "covered" }, capital(covered)),
  );
  return { element, draw: () => undefined };
}
