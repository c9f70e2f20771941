/** Search box and copy button of the table. */
import { toCsv } from "../model/csv.ts";
import { nameOf, shortNameOf } from "../model/names.ts";
import type { Row } from "../model/outline.ts";
import type { Filter, Level } from "../model/payload.ts";
import { copyText } from "./clipboard.ts";
import type { Context } from "./context.ts";
import { el } from "./element.ts";
import { metricOf } from "./node_text.ts";
import type { Column } from "./table_row.ts";

export function searchBox({ store }: Context): HTMLInputElement {
  const input = el("input", {
    type: "search",
    class: "cj-search",
    placeholder: "Search names",
    "aria-label": "Search names",
    "data-testid": "search",
    spellcheck: "false",
    autocomplete: "off",
  });
  input.addEventListener("input", () => store.setLocal({ search: input.value }));
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || input.value === "") return;
    event.stopPropagation(); // the first Esc clears the search, the next one goes up
    event.preventDefault();
    store.setLocal({ search: "" });
  });
  return input;
}

export interface Copied {
  readonly rows: readonly Row[];
  readonly columns: readonly Column[];
}

export function copyButton(context: Context, shown: () => Copied): HTMLButtonElement {
  const button = el("button", { "data-testid": "copy-csv" }, "Copy as CSV");
  button.addEventListener("click", () => {
    void copyText(csvOf(context, shown()), button).then((done) => {
      button.textContent = done ? "Copied" : "The browser refused to copy";
      context.announce(button.textContent);
      setTimeout(() => (button.textContent = "Copy as CSV"), 1500);
    });
  });
  return button;
}

/** The rows as shown, with full names and full precision in the metrics' own units. */
export function csvOf(context: Context, { rows, columns }: Copied): string {
  const { selection } = context.drill();
  const levels = [...new Set(rows.flatMap((row) => row.path.map(([level]) => level)))];
  const header = columns.map(({ metric }) => metric.name + (metric.unit ? ` (${metric.unit})` : ""));
  const name = (path: readonly Filter[], level: Level) => {
    const filter = path.find(([at]) => at === level);
    return filter ? nameOf(context.payload, ...filter) : "";
  };
  const lines = rows.map(({ node, path }) => [
    ...levels.map((level) => name(path, level)),
    ...columns.map(({ metric }) => metricOf(context, metric, node.sums, [...selection, ...path])),
  ]);
  return toCsv([...levels, ...header], lines);
}

export function rowName(context: Context, { path }: Row): string {
  const last = path[path.length - 1];
  return last ? shortNameOf(context.payload, ...last) : "";
}
