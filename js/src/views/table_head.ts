/** Column headings: each is a button that sorts. */
import { levelTitle } from "../model/names.ts";
import type { Level } from "../model/payload.ts";
import { isOrdered } from "../model/tree.ts";
import type { State } from "../store/state.ts";
import type { Context } from "./context.ts";
import { el } from "./element.ts";
import type { Column } from "./table_row.ts";

export function headRow(
  context: Context,
  state: State,
  level: Level | null,
  columns: readonly Column[],
): HTMLElement {
  const now = sortOf(state, level);
  const cells = columns.map(({ metric, format }) =>
    heading(
      context,
      metric.name,
      metric.title,
      metric.name === "share" ? "" : format.unit,
      metric.meaning,
      now,
    ),
  );
  const name = levelTitle(context.payload, level ?? "kernel");
  return el("tr", {}, heading(context, "name", name, "", "", now), ...cells);
}

export interface SortNow {
  readonly column: string;
  readonly descending: boolean;
}

/** What the table is sorted by, when nothing was chosen too. */
export function sortOf({ local, synced }: State, level: Level | null): SortNow {
  if (local.sort) return local.sort;
  if (level && isOrdered(level) && level !== "phase") return { column: "name", descending: false };
  return { column: synced.metric, descending: true };
}

function heading(
  context: Context,
  column: string,
  title: string,
  unit: string,
  meaning: string,
  now: SortNow,
): HTMLElement {
  const on = now.column === column;
  const sort = () => {
    const descending = on ? !now.descending : column !== "name";
    context.store.setLocal({ sort: { column, descending } });
    if (column !== "name") context.store.setSynced({ metric: column });
  };
  const arrow = on
    ? el("span", { class: "arrow", "aria-hidden": "true" }, now.descending ? "\u2193" : "\u2191")
    : null;
  const button = el(
    "button",
    { "data-sort": column, title: meaning || null, onclick: sort },
    title,
    unit ? el("small", {}, unit) : null,
    arrow,
  );
  const direction = now.descending ? "descending" : "ascending";
  return el(
    "th",
    { scope: "col", class: column === "share" ? "share" : "", "aria-sort": on ? direction : null },
    button,
  );
}
