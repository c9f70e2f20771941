/** Which metrics the table shows. */
import type { Context, View } from "./context.ts";
import { el } from "./element.ts";

export function columnMenu({ metrics, store }: Context): View {
  const boxes = metrics.map((metric) => {
    const input = el("input", { type: "checkbox", "data-metric": metric.name });
    input.addEventListener("change", () => toggle(metric.name, input.checked));
    return input;
  });
  const toggle = (name: string, on: boolean) => {
    const { columns } = store.get().local;
    store.setLocal({ columns: on ? [...columns, name] : columns.filter((column) => column !== name) });
  };
  const labels = metrics.map((metric, i) =>
    el("label", { title: metric.meaning }, boxes[i] ?? null, metric.title),
  );
  const list = el("div", { class: "cj-menu", role: "group", "aria-label": "Columns" }, ...labels);
  const element = el(
    "details",
    { class: "cj-columns", "data-testid": "columns" },
    el("summary", {}, "Columns"),
    list,
  );
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !element.open) return;
    element.open = false;
    element.querySelector("summary")?.focus();
    event.stopPropagation();
  });
  element.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget instanceof Node && !element.contains(relatedTarget)) element.open = false;
  });
  return {
    element,
    draw: ({ local }) => {
      for (const box of boxes) box.checked = local.columns.includes(box.dataset["metric"] ?? "");
    },
  };
}
