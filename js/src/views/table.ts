/** The children of the selection with their metrics. */
import { columnFormat } from "../model/format.ts";
import { capital, plural, selectionName, shortNameOf } from "../model/names.ts";
import { outlineOf, type Outline, type Row } from "../model/outline.ts";
import type { Filter, Payload } from "../model/payload.ts";
import { matches } from "../model/search.ts";
import { fix } from "../model/selection.ts";
import { sizeOf } from "../model/tree.ts";
import type { State } from "../store/state.ts";
import { columnMenu } from "./column_menu.ts";
import type { Context, View } from "./context.ts";
import { changeGuard, el, replaceChildren } from "./element.ts";
import { metricOf, nodeTooltip } from "./node_text.ts";
import { statusView } from "./panel_status.ts";
import { headRow, sortOf } from "./table_head.ts";
import { tableRow, type Column } from "./table_row.ts";
import { copyButton, rowName, searchBox } from "./table_tools.ts";

interface Shown {
  outline: Outline;
  rows: HTMLTableRowElement[];
  columns: Column[];
}

export function tableView(context: Context): View {
  const shown: Shown = { outline: { level: null, rows: [], total: 0, nested: false }, rows: [], columns: [] };
  const table = el("table", { "data-testid": "table" });
  const title = el("div", { class: "cj-h", role: "heading", "aria-level": 3 });
  const status = statusView();
  const search = searchBox(context);
  const menu = columnMenu(context);
  const count = el("span", { "data-testid": "row-count" });
  const more = el("button", { "data-testid": "show-all" });
  more.addEventListener("click", () =>
    context.store.setLocal({ showAll: !context.store.get().local.showAll }),
  );
  const copy = copyButton(context, () => ({ rows: shown.outline.rows, columns: shown.columns }));
  listen(context, table, shown);
  const gap = () => el("span", { class: "cj-sp" });
  const element = el(
    "section",
    { class: "cj-panel cj-tab", "aria-label": "Parts of the selection" },
    el("header", {}, title, status.element, gap(), search, menu.element),
    el("div", { class: "cj-scroll" }, table),
    el("footer", {}, count, more, gap(), copy),
  );
  const changed = changeGuard();
  return {
    element,
    draw: (state) => {
      const { tree, levels, pending, failure } = context.drill();
      const { search: text, sort, columns, showAll } = state.local;
      menu.draw(state);
      status.set(pending, failure);
      if (search.value !== text) search.value = text;
      const spread = columns.includes("spread") ? context.spreads().cube : null;
      const metric = state.synced.metric;
      const parts = [tree, levels.join(), text, sort, columns, showAll, metric, spread, context.theme()];
      if (!changed(...parts)) return;
      drawRows(context, table, shown, state);
      title.textContent = titleOf(context.payload, shown.outline);
      drawFoot(shown.outline, state, count, more);
    },
  };
}

function drawRows(context: Context, table: HTMLTableElement, shown: Shown, state: State): void {
  const { tree, selection, levels } = context.drill();
  const focused = document.activeElement;
  const sorted = table.contains(focused) ? focused?.getAttribute("data-sort") : null;
  const hadRow = shown.rows.some((row) => row === focused);
  shown.outline = outlineFor(context, state);
  shown.columns = columnsFor(context, state, shown.outline);
  const longest = shown.outline.rows.reduce((most, row) => Math.max(most, sizeOf(row.node)), 0) || 1;
  const style = { selection, columns: shown.columns, nested: shown.outline.nested, longest };
  shown.rows = shown.outline.rows.map((row) => tableRow(context, row, style));
  if (shown.rows[0]) shown.rows[0].tabIndex = 0;
  const below = tree.children(tree.root, levels) !== null;
  const body = shown.rows.length
    ? shown.rows
    : [emptyRow(shown.columns.length + 1, below, state.local.search)];
  replaceChildren(
    table,
    el("caption", { class: "cj-vh" }, `Parts of ${selectionName(context.payload, selection)}`),
    el("thead", {}, headRow(context, state, shown.outline.level, shown.columns)),
    el("tbody", {}, ...body),
  );
  if (sorted) table.querySelector<HTMLElement>(`[data-sort="${sorted}"]`)?.focus({ preventScroll: true });
  if (hadRow) shown.rows[0]?.focus({ preventScroll: true });
}

function outlineFor(context: Context, state: State): Outline {
  const { tree, selection, levels } = context.drill();
  const level = tree.children(tree.root, levels)?.level ?? null;
  const { column, descending } = sortOf(state, level);
  const metric = context.metrics.find(({ name }) => name === column);
  const { search, showAll } = state.local;
  return outlineOf(tree, levels, {
    sort: state.local.sort || column !== "name" ? { byName: column === "name", descending } : null,
    showAll,
    searching: search.trim() !== "",
    value: ({ node, path }: Row) =>
      metric ? metricOf(context, metric, node.sums, [...selection, ...path]) : sizeOf(node),
    name: (row) => rowName(context, row),
    matches: ({ path }) => path.some((filter) => matches(context.payload, filter, search)),
  });
}

function columnsFor(context: Context, { local }: State, { rows }: Outline): Column[] {
  const { selection } = context.drill();
  const shown = (name: string) => local.columns.includes(name) || name === local.sort?.column;
  const metrics = context.metrics.filter(({ name }) => shown(name));
  return metrics.map((metric) => {
    const values = rows.map(({ node, path }) =>
      metricOf(context, metric, node.sums, [...selection, ...path]),
    );
    return { metric, format: columnFormat(metric.unit, values) };
  });
}

function titleOf(payload: Payload, { level, rows, nested }: Outline): string {
  if (level === null) return "Parts";
  const inner = rows.find((row) => row.depth === 1)?.path.at(-1)?.[0];
  const title = capital(plural(payload, level));
  return nested && inner ? `${title} and their ${plural(payload, inner)}` : title;
}

function drawFoot(
  { rows, total, nested }: Outline,
  { local }: State,
  count: Element,
  more: HTMLElement,
): void {
  const all = rows.length === total;
  const number = all ? `${total} row${total === 1 ? "" : "s"}` : `${rows.length} of ${total} rows`;
  count.textContent = nested && !all ? "Largest parts of each" : number;
  const canChange = local.search.trim() === "" && (!all || local.showAll);
  more.textContent = local.showAll ? "Show fewer" : "Show all";
  more.hidden = !canChange;
}

function emptyRow(span: number, below: boolean, search: string): HTMLElement {
  const text =
    below && search.trim()
      ? `No name contains "${search.trim()}".`
      : "Nothing below this level. Press Esc to go back.";
  return el("tr", { class: "empty" }, el("td", { colspan: span }, text));
}

function listen(context: Context, table: HTMLTableElement, shown: Shown): void {
  const placeOf = (event: Event) => {
    const row = (event.target as Element).closest("tr");
    return row ? shown.rows.indexOf(row) : -1;
  };
  const open = (row: Row) => context.select(fix(context.store.get().synced.selection, row.path));
  const focusRow = (at: number) => {
    const row = shown.rows[Math.max(0, Math.min(shown.rows.length - 1, at))];
    for (const other of shown.rows) other.tabIndex = other === row ? 0 : -1;
    row?.focus();
  };
  table.addEventListener("click", (event) => {
    const row = shown.outline.rows[placeOf(event)];
    if (row) open(row);
  });
  table.addEventListener("keydown", (event) => {
    const at = placeOf(event);
    const row = shown.outline.rows[at];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowDown") focusRow(at + 1);
    else if (event.key === "ArrowUp") focusRow(at - 1);
    else if (event.key === "Enter" || event.key === " ") open(row);
    else return;
    event.preventDefault();
  });
  table.addEventListener("pointermove", (event) =>
    hoverRow(context, event, shown.outline.rows[placeOf(event)]),
  );
  table.addEventListener("pointerleave", () => leave(context));
}

function hoverRow(context: Context, event: PointerEvent, row: Row | undefined): void {
  const filter: Filter | undefined = row?.path[row.path.length - 1];
  if (!row || !filter) return leave(context);
  context.hover(filter);
  const onName = (event.target as Element).closest("th") !== null;
  if (!onName) return context.tooltip.hide(); // the numbers are in the row already
  const filters = [...context.drill().selection, ...row.path];
  context.tooltip.show(
    event,
    nodeTooltip(context, shortNameOf(context.payload, ...filter), row.node.sums, filters, null),
  );
}

function leave(context: Context): void {
  context.tooltip.hide();
  context.hover(null);
}
