/** One row of the table. */
import { MISSING, percent, signed, type ColumnFormat } from "../model/format.ts";
import { nameOf, shortNameOf } from "../model/names.ts";
import type { Row } from "../model/outline.ts";
import type { Filter, Metric } from "../model/payload.ts";
import { sizeOf } from "../model/tree.ts";
import { hoverKey, type Context } from "./context.ts";
import { el } from "./element.ts";
import { metricOf } from "./node_text.ts";
import { background } from "./paint.ts";

export interface Column {
  readonly metric: Metric;
  readonly format: ColumnFormat;
}

export interface RowStyle {
  readonly selection: readonly Filter[];
  readonly columns: readonly Column[];
  readonly nested: boolean;
  /** Time of the longest row, whose bar is full. */
  readonly longest: number;
}

export function tableRow(context: Context, row: Row, style: RowStyle): HTMLTableRowElement {
  const filter = row.path[row.path.length - 1] as Filter;
  const filters = [...style.selection, ...row.path];
  const fill = background(context.payload, context.theme(), row.node, "var(--cj-idle-ink)");
  const cells = style.columns.map((column) => valueCell(context, row, column, filters, style.longest, fill));
  return el(
    "tr",
    {
      tabindex: -1,
      "data-testid": "table-row",
      "data-level": filter[0],
      "data-label": nameOf(context.payload, ...filter),
      "data-depth": row.depth,
      "data-key": hoverKey(filter),
    },
    nameCell(context, filter, row.depth, style.nested, fill),
    ...cells,
  );
}

function nameCell(
  context: Context,
  filter: Filter,
  depth: 0 | 1,
  nested: boolean,
  fill: string,
): HTMLElement {
  const short = shortNameOf(context.payload, ...filter);
  const isKernel = filter[0] === "kernel" && context.payload.device_kind === "gpu";
  const code = isKernel && short === nameOf(context.payload, ...filter);
  const kind = depth === 1 ? " sub" : nested ? " par" : "";
  const swatch = el("i", { class: "cj-sw", style: `background:${fill}` });
  const text = el("span", { class: code ? "mono" : "" }, short);
  return el("th", { scope: "row" }, el("div", { class: `nm${kind}` }, swatch, text));
}

function valueCell(
  context: Context,
  row: Row,
  { metric, format }: Column,
  filters: readonly Filter[],
  longest: number,
  fill: string,
): HTMLElement {
  const value = metricOf(context, metric, row.node.sums, filters);
  const missing = value === null || !Number.isFinite(value);
  if (metric.name !== "share")
    return el(
      "td",
      { class: missing ? "dim" : metric.diverging ? toneOf(value) : "", "data-metric": metric.name },
      signed(format.cell(value), value, metric.diverging === true),
    );
  const width = `${(100 * sizeOf(row.node)) / longest}%`;
  const bar = el("b", {}, el("i", { style: `width:${width};background:${fill}` }));
  const text = value === null ? MISSING : percent(value);
  return el("td", { class: "share", "data-metric": metric.name }, el("div", {}, bar, el("span", {}, text)));
}

/** Worse and better have colours beside their signs; what is small has none. */
function toneOf(value: number): string {
  return Math.abs(value) < 0.5 ? "" : value > 0 ? "slow" : "fast";
}
