/** What the width of a bar stands for. */
import type { Context, View } from "./context.ts";
import { el } from "./element.ts";

/** Null where there is no choice. */
export function sizeSelect({ payload, store }: Context): View | null {
  const sizes = payload.sizes ?? [];
  if (sizes.length < 2) return null;
  const list = el(
    "select",
    { "data-testid": "size", "aria-label": "Size of the bars" },
    ...sizes.map(({ name, title }) => el("option", { value: name }, title)),
  );
  list.addEventListener("change", () => store.setSynced({ size: list.value }));
  return {
    element: el("label", { class: "cj-size" }, el("span", { class: "cj-lab" }, "Size"), list),
    draw: ({ synced }) => {
      list.value = synced.size;
    },
  };
}
