/** The way from theoretical to actual time of the selection, part by part. */
import { columnFormat, time } from "../model/format.ts";
import { instances } from "../model/metrics.ts";
import { perInstance, selectionName, sentence } from "../model/names.ts";
import { overheadLines, type OverheadLine } from "../model/overheads.ts";
import type { Filter, Overheads } from "../model/payload.ts";
import { createOverheads, type OverheadAnswer } from "../store/overhead_source.ts";
import type { Context, View } from "./context.ts";
import { NEEDS_KERNEL } from "./context.ts";
import { changeGuard, el, replaceChildren } from "./element.ts";
import { statusView } from "./panel_status.ts";

/** Null where no counters were recorded. */
export function overheadsView(context: Context, redraw: () => void): View | null {
  const { overheads } = context.payload;
  if (!overheads) return null;
  const answerAt = createOverheads(overheads, context.source, redraw);
  const rows = el("div", {
    class: "cj-breakdown cj-overheads",
    role: "table",
    "aria-label": "From theoretical to actual time by part",
  });
  const [unit, status] = [el("p"), statusView()];
  const title = el("div", { class: "cj-h", role: "heading", "aria-level": 3 }, "Theoretical to actual");
  const foot = el("p", { class: "cj-foot", "data-testid": "overheads-note" });
  const element = el(
    "section",
    { class: "cj-panel cj-ovr", "data-testid": "overheads", "aria-label": "Theoretical to actual" },
    el("header", {}, title, unit, status.element),
    rows,
    foot,
    meanings(overheads),
  );
  const changed = changeGuard();
  return {
    element,
    draw: ({ synced }) => {
      const answer = answerAt(synced.selection);
      status.set(answer.pending, answer.failure);
      if (!changed(answer.row, answer.pending, synced.selection, context.theme())) return;
      const lines = answer.row ? overheadLines(answer.row, instances(context.payload, answer.filters)) : [];
      drawLines(rows, lines);
      const of = answer.filters.length ? selectionName(context.payload, answer.filters) : "whole run";
      unit.textContent = `${of}, ${perInstance(context.payload, answer.filters)}`;
      foot.textContent = noteOf(context, answer, lines, synced.selection);
    },
  };
}

function drawLines(rows: HTMLElement, lines: readonly OverheadLine[]): void {
  const format = columnFormat(
    "ns",
    lines.map(({ ns }) => ns),
  );
  const ends = lines.flatMap(({ from, ns }) => [from, from + (ns ?? 0)]);
  const scale = { low: Math.min(0, ...ends), high: Math.max(0, ...ends) };
  const head = el(
    "div",
    { class: "row head", role: "row" },
    el("span", { role: "columnheader" }, "Part"),
    el("b", { role: "presentation" }),
    el("span", { class: "num", role: "columnheader" }, format.unit),
    el("span", { class: "num", role: "columnheader" }, "± 95\u202f%"),
  );
  const drawn = lines.map((line) => lineRow(line, scale, format.cell));
  replaceChildren(rows, ...(lines.length ? [head, ...drawn] : []));
}

interface Scale {
  readonly low: number;
  readonly high: number;
}

function lineRow(line: OverheadLine, scale: Scale, cell: (ns: number | null) => string): HTMLElement {
  const total = line.name === "actual";
  const { ns, half } = line;
  const unknown = ns === null;
  const label = el("span", { role: "rowheader", title: line.meaning }, line.title);
  const props = { class: total ? "row total" : "row", role: "row", "data-overhead": line.name };
  if (unknown) {
    const words = line.reason?.includes("not identifiable") ? "not identifiable" : "not known";
    const why = el("span", { class: "unknown", role: "cell", title: line.reason }, words);
    return el("div", { ...props, class: "row unknowable" }, label, why);
  }
  const value = el("span", { class: "num", role: "cell" }, cell(ns));
  const interval = el("span", { class: "num dim", role: "cell" }, half ? cell(half) : "");
  return el("div", props, label, barOf(line, ns, scale), value, interval);
}

/** The bar, and the interval of its end as a whisker. */
function barOf({ name, from, half }: OverheadLine, ns: number, { low, high }: Scale): HTMLElement {
  const share = (value: number) => (high > low ? (100 * value) / (high - low) : 0);
  const at = (value: number) => share(value - low);
  const [left, right] = ns < 0 ? [from + ns, from] : [from, from + ns];
  const bar = el("i", {
    class: name === "actual" ? "bar total" : `bar part-${name}`,
    style: `left:${at(left)}%;width:${share(right - left)}%`,
  });
  const whisker =
    half !== null && share(half) > 0.3
      ? el("i", {
          class: "whisker",
          style: `left:${Math.max(0, at(from + ns - half))}%;width:${share(2 * half)}%`,
        })
      : null;
  return el("b", { role: "presentation" }, bar, whisker);
}

/** What the words mean, for who wants to know. */
function meanings({ parts }: Overheads): HTMLElement {
  const rows = parts.flatMap(({ title, meaning }) => [el("dt", {}, title), el("dd", {}, meaning)]);
  return el(
    "details",
    { class: "cj-meanings" },
    el("summary", {}, "What the parts mean"),
    el("dl", {}, ...rows),
  );
}

function noteOf(
  { payload }: Context,
  { row, filters, pending }: OverheadAnswer,
  lines: readonly OverheadLine[],
  selection: readonly Filter[],
): string {
  if (!row && pending) return "";
  if (!row) return "No kernels with counters or shapes here.";
  const left = selection.filter(([level]) => !filters.some(([name]) => name === level));
  const notes: string[] = [];
  if (left.some(([level]) => level === "kernel")) notes.push("Told of whole ops, not of single kernels.");
  else if (left.length)
    notes.push(`${sentence(selectionName(payload, selection)).slice(0, -1)} ${NEEDS_KERNEL}.`);
  const reasons = new Set(lines.flatMap(({ reason, ns }) => (ns === null && reason ? [reason] : [])));
  notes.push(...[...reasons].map(sentence));
  const unexplained = lines.find(({ name }) => name === "unexplained")?.ns ?? 0;
  if (unexplained < 0) notes.push(`The parts explain ${time(-unexplained)} more than it took.`);
  return notes.join(" ");
}
