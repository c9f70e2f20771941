/** A line for the first time; it goes once it was read or something was selected. */
import type { View } from "./context.ts";
import { el } from "./element.ts";

const KEY = "chopper-explorer-hint";

export function hintView(): View {
  let seen = remembered();
  const done = () => {
    seen = true;
    remember();
    element.hidden = true;
  };
  const element = el(
    "p",
    { class: "cj-first", "data-testid": "first-hint" },
    el(
      "span",
      {},
      "Click a bar to look into it, Esc to go back. Drag the levels to divide by something else first. Click the timeline, then use the wheel.",
    ),
    el("button", { onclick: done }, "Got it"),
  );
  return {
    element,
    draw: ({ synced }) => {
      if (!seen && synced.selection.length > 0) done();
      element.hidden = seen;
    },
  };
}

function remembered(): boolean {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return false; // pages of files and sandboxes may not remember anything
  }
}

function remember(): void {
  try {
    localStorage.setItem(KEY, "seen");
  } catch {
    // then it is shown again next time
  }
}
