/** Where the wall time of the selection goes: parts that add up, and what the GPU waited for. */
import { columnFormat, percent, time } from "../model/format.ts";
import { familyColour } from "../model/colour.ts";
import type { Sums } from "../model/cube.ts";
import { instances } from "../model/metrics.ts";
import { perInstance, selectionName } from "../model/names.ts";
import type { Filter } from "../model/payload.ts";
import { waterfallOf, type Line } from "../model/waterfall.ts";
import type { PartView } from "../store/part_source.ts";
import type { Context, View } from "./context.ts";
import { NEEDS_KERNEL } from "./context.ts";
import { changeGuard, el, replaceChildren } from "./element.ts";
import { missingNote } from "./missing.ts";
import { statusView } from "./panel_status.ts";
import { causeInk } from "./timeline_palette.ts";

export function breakdownView(context: Context, partsAt: PartView): View {
  const rows = el("div", { class: "cj-breakdown", role: "table", "aria-label": "Wall time by part" });
  const unit = el("p");
  const status = statusView();
  const title = el("div", { class: "cj-h", role: "heading", "aria-level": 3 }, "Wall time");
  const header = el("header", {}, title, unit, status.element);
  const foot = el("p", { class: "cj-foot", "data-testid": "breakdown-note" });
  const element = el(
    "section",
    { class: "cj-panel cj-brk", "data-testid": "breakdown", "aria-label": "Wall time" },
    header,
    rows,
    foot,
    missingNote(context, "counters"),
  );
  const changed = changeGuard();
  return {
    element,
    draw: ({ synced }) => {
      const { sums, filters, pending, failure } = partsAt(synced.selection);
      status.set(pending, failure);
      if (!changed(context.theme(), JSON.stringify(sums), filters, synced.selection)) return;
      drawLines(context, rows, sums, filters);
      const of = filters.length ? selectionName(context.payload, filters) : "whole run";
      unit.textContent = `${of}, ${perInstance(context.payload, filters)}`;
      foot.textContent = noteOf(context, sums, filters, synced.selection);
    },
  };
}

function drawLines(context: Context, rows: HTMLElement, sums: Sums | null, filters: readonly Filter[]): void {
  const { payload } = context;
  const each = instances(payload, filters);
  const parts = payload.parts ?? [];
  const lines = sums ? waterfallOf(parts, sums, each) : [];
  const wall = lines[lines.length - 1]?.ns ?? 0;
  const format = columnFormat(
    "ns",
    lines.map(({ ns }) => ns),
  );
  const head = el(
    "div",
    { class: "row head", role: "row" },
    el("span", { role: "columnheader" }, "Part"),
    el("b", { role: "presentation" }),
    el("span", { class: "num", role: "columnheader" }, format.unit),
    el("span", { class: "num", role: "columnheader" }, "share"),
  );
  const drawn = lines.map((line) => lineRow(context, line, wall, format.cell(line.ns)));
  replaceChildren(rows, ...(lines.length ? [head, ...drawn] : []));
}

function lineRow(context: Context, line: Line, wall: number, value: string): HTMLElement {
  const share = wall > 0 ? (100 * line.ns) / wall : 0;
  const left = wall > 0 ? (100 * line.from) / wall : 0;
  const bar = el("i", {
    class: `bar ${line.kind}`,
    style: `left:${left}%;width:${share}%;${fillOf(context, line, share)}`,
  });
  return el(
    "div",
    { class: line.kind === "total" ? "row total" : "row", role: "row", "data-part": line.name },
    el("span", { role: "rowheader", title: line.title }, line.title),
    el("b", { role: "presentation" }, bar),
    el("span", { class: "num", role: "cell" }, value),
    el("span", { class: "num dim", role: "cell" }, percent(share)),
  );
}

/** Percent of the width under which a hatch looks like a colon. */
const HATCHED_FROM = 4;

/** Idle is hatched, where there is room for it; its cause picks the ink. */
function fillOf({ theme }: Context, { name, kind }: Line, share: number): string {
  if (kind === "idle" && share < HATCHED_FROM) return `background:var(${causeInk(name)})`;
  if (kind === "idle")
    return `background:repeating-linear-gradient(135deg,transparent 0 3px,var(${causeInk(name)}) 3px 4.5px)`;
  const family = { compute: "gemm", exposed_communication: "communication", memory: "copy" }[name];
  return family ? `background:${familyColour(theme(), family)}` : "";
}

function noteOf(
  { payload }: Context,
  sums: Sums | null,
  filters: readonly Filter[],
  selection: readonly Filter[],
): string {
  const notes: string[] = [];
  if (!sums) notes.push(`This ${NEEDS_KERNEL}.`);
  else if (filters.length < selection.length)
    notes.push(`The wall time of ${selectionName(payload, selection)} ${NEEDS_KERNEL}.`);
  if (selection.length === 0) notes.push(sideBySide(payload) ?? "");
  return notes.filter(Boolean).join(" ");
}

/** Kernels that run at the same time count once in wall time and each in kernel time. */
function sideBySide(payload: Context["payload"]): string | null {
  const each = instances(payload, []);
  const kernel = payload.totals["time_ns"] ?? 0;
  const double = kernel - (payload.totals["busy_ns"] ?? kernel);
  if (double < 0.0005 * kernel) return null;
  const what = payload.device_kind === "cpu" ? "Operator" : "Kernel";
  return `${what} time is ${time(kernel / each)}: ${time(double / each)} of it ran beside other work.`;
}
