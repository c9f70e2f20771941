/** Which GPU, which iteration is slow: the selection's time in each, against the median. */
import { rampGradient } from "../model/colour.ts";
import { change, time } from "../model/format.ts";
import { capital, levelWord, nameOf, plural, selectionName, sentence } from "../model/names.ts";
import type { Filter, Payload } from "../model/payload.ts";
import { codeOf, fix, release } from "../model/selection.ts";
import { variationOf, type Variation } from "../model/variation.ts";
import type { VariationAnswer, VariationView } from "../store/variation_source.ts";
import { NEEDS_KERNEL, type Context, type View } from "./context.ts";
import { changeGuard, el, replaceChildren, svg } from "./element.ts";
import { drawGrid, type Drawn, type Grid } from "./heatmap_picture.ts";
import type { Raster } from "./heatmap_raster.ts";
import { statusView } from "./panel_status.ts";

interface Shown {
  cells: SVGElement[];
  grid: Grid | null;
  drawn: Drawn | null;
  /** Where the one cell element of an image stands. */
  at: number;
}

export function heatmapView(context: Context, variationAt: VariationView): View {
  const shown: Shown = { cells: [], grid: null, drawn: null, at: 0 };
  const picture = svg("svg", {
    role: "grid",
    "aria-label": "Time per GPU and iteration. Arrow keys move, Enter selects.",
    "data-testid": "heatmap",
  });
  const what = el("p");
  const status = statusView();
  const canvas = el("div", { class: "cj-heat" }, picture);
  const foot = el("div", { class: "cj-legend" });
  const note = el("p", { class: "cj-foot", "data-testid": "heatmap-note" });
  const title = el("div", { class: "cj-h", role: "heading", "aria-level": 3 }, "Variation");
  const element = el(
    "section",
    { class: "cj-panel cj-var", "aria-label": "Variation" },
    el("header", {}, title, what, status.element),
    canvas,
    foot,
    note,
  );
  const changed = changeGuard();
  listen(context, picture, shown);
  return {
    element,
    draw: ({ synced }) => {
      const answer = variationAt(synced.selection);
      status.set(answer.pending, answer.failure);
      if (!changed(answer.cube, answer.left.length, synced.selection, canvas.clientWidth, context.theme()))
        return;
      const variation = answer.cube && variationOf(answer.cube);
      what.textContent = headline(context, answer);
      note.textContent = noteOf(context, answer, variation);
      shown.grid =
        variation && varies(context) ? gridOf(context, answer, variation, canvas.clientWidth) : null;
      drawAll(context, picture, foot, shown);
    },
  };
}

function drawAll(context: Context, picture: SVGSVGElement, foot: HTMLElement, shown: Shown): void {
  const at = shown.cells.findIndex((cell) => cell === document.activeElement);
  picture.classList.toggle("empty", shown.grid === null);
  if (!shown.grid) {
    shown.cells = [];
    replaceChildren(picture);
    replaceChildren(foot);
    return;
  }
  const drawn = drawGrid(context, shown.grid);
  const { parts, rows, cells, height } = drawn;
  Object.assign(shown, { cells, drawn });
  picture.setAttribute("viewBox", `0 0 ${shown.grid.width} ${height}`);
  picture.setAttribute("style", `height:${height}px`);
  const labels = svg("g", { "aria-hidden": "true" }, ...parts);
  replaceChildren(picture, labels, svg("g", { role: "rowgroup" }, ...rows));
  if (drawn.raster) moveCursor(picture, shown, shown.at, false);
  cells[Math.max(0, at)]?.setAttribute("tabindex", "0");
  if (at >= 0) cells[at]?.focus({ preventScroll: true });
  replaceChildren(foot, ...legend(context, shown.grid.variation));
}

/** One cell varies from nothing. */
function varies({ payload: { dictionaries } }: Context): boolean {
  return dictionaries.gpu.length * Math.max(1, dictionaries.iteration.length) > 1;
}

function gridOf(
  { payload, store, canSelect }: Context,
  answer: VariationAnswer,
  variation: Variation,
  width: number,
): Grid {
  const { selection } = store.get().synced;
  const codes = (count: number) => Array.from({ length: count }, (_, code) => code);
  const iterations = payload.dictionaries.iteration.length
    ? codes(payload.dictionaries.iteration.length)
    : [-1];
  const gpus = codes(payload.dictionaries.gpu.length);
  const first = cellFilters(payload, gpus[0] ?? 0, iterations[0] ?? -1);
  const enabled = answer.left.length === 0 && canSelect(fix(selection, first));
  return { gpus, iterations, width: Math.max(200, width || 352), selection, enabled, variation };
}

/** Levels with a single value are not worth a step in the breadcrumb. */
function cellFilters(payload: Payload, gpu: number, iteration: number): Filter[] {
  const filters: Filter[] = [];
  if (payload.dictionaries.gpu.length > 1) filters.push(["gpu", gpu]);
  if (payload.dictionaries.iteration.length > 1) filters.push(["iteration", iteration]);
  return filters;
}

function headline({ payload }: Context, { filters, left }: VariationAnswer): string {
  const time = payload.device_kind === "cpu" ? "operator time" : "kernel time";
  const of = left.length ? ` of ${filters.length ? selectionName(payload, filters) : "everything"}` : "";
  return `${time}${of} against the median`;
}

function noteOf(
  { payload, store }: Context,
  { cube, left, pending }: VariationAnswer,
  variation: Variation | null,
): string {
  const notes: string[] = [];
  const whole = release(store.get().synced.selection, ["gpu", "iteration"]);
  if (left.length) notes.push(`${capital(selectionName(payload, whole))} alone ${NEEDS_KERNEL}.`);
  if (!cube && !pending) notes.push(`This ${NEEDS_KERNEL}.`);
  if (cube && !variation) notes.push("No time in this selection.");
  const [gpu, single] = [levelWord(payload, "gpu"), payload.dictionaries.gpu.length === 1];
  const once = payload.dictionaries.iteration.length <= 1;
  if (variation && single && once)
    notes.push(`It takes several ${gpu}s or iterations; this has one of each.`);
  else if (variation && single) notes.push(`One ${gpu} recorded.`);
  else if (variation && once) notes.push("One iteration recorded.");
  return [...notes, sentence(cube?.coarse ?? null)].filter(Boolean).join(" ");
}

function legend({ theme }: Context, { limit, outliers }: Variation): HTMLElement[] {
  const ramp = el("i", { class: "ramp", style: `background:${rampGradient("diverging", theme())}` });
  const ends = el("span", {}, end(-limit), ramp, end(limit));
  if (outliers === 0) return [ends];
  const words = `${outliers} outlier${outliers === 1 ? "" : "s"}, beyond 1.5 IQR`;
  return [ends, el("span", {}, el("i", { class: "point" }), words)];
}

/** Ends of the scale are whole percents. */
const end = (ratio: number) => change(ratio).replace(".0", "");

function listen(context: Context, picture: SVGSVGElement, shown: Shown): void {
  const cellAt = (event: Event) => {
    const { raster } = shown.drawn ?? {};
    if (raster) return event instanceof MouseEvent ? locate(picture, raster, event) : shown.at;
    const cell = (event.target as Element).closest("g.cell");
    return cell ? shown.cells.indexOf(cell as SVGElement) : -1;
  };
  picture.addEventListener("click", (event) => {
    const label = (event.target as Element).getAttribute("data-gpu-label");
    if (label !== null) toggle(context, shown, [["gpu", Number(label)]]);
    else choose(context, shown, cellAt(event));
  });
  picture.addEventListener("keydown", (event) => {
    const at = cellAt(event);
    if (at < 0 || !shown.grid || event.ctrlKey || event.metaKey || event.altKey) return;
    const columns = shown.grid.iterations.length;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step !== undefined) focusCell(picture, shown, at, at + step);
    else if (event.key === "Enter" || event.key === " ") choose(context, shown, at);
    else return;
    event.preventDefault();
  });
  picture.addEventListener("pointermove", (event) => showTooltip(context, event, shown, cellAt(event)));
  picture.addEventListener("pointerleave", () => context.tooltip.hide());
}

/** Coordinates of the picture are those of the page, moved. */
function locate(picture: SVGSVGElement, raster: Raster, event: MouseEvent): number {
  const box = picture.getBoundingClientRect();
  const scale = (picture.viewBox.baseVal.width || box.width) / box.width;
  return raster.locate((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
}

/** In an image, one element stands for the cell that has the focus. */
function moveCursor(picture: SVGSVGElement, shown: Shown, to: number, focus: boolean): void {
  const cell = shown.drawn?.cursor(to);
  const group = picture.querySelector("[role=rowgroup]");
  if (!cell || !group) return;
  shown.at = to;
  cell.setAttribute("tabindex", "0");
  replaceChildren(group, svg("g", { role: "row" }, cell));
  if (focus) cell.focus({ preventScroll: true });
}

function focusCell(picture: SVGSVGElement, shown: Shown, from: number, to: number): void {
  const columns = shown.grid?.iterations.length ?? 1;
  const sideways = Math.abs(to - from) === 1 && columns > 1;
  const leavesRow = sideways && Math.floor(to / columns) !== Math.floor(from / columns);
  const count = columns * (shown.grid?.gpus.length ?? 0);
  if (leavesRow || to < 0 || to >= count) return;
  if (shown.drawn?.raster) return moveCursor(picture, shown, to, true);
  const cell = shown.cells[to];
  if (!cell) return;
  shown.cells[from]?.setAttribute("tabindex", "-1");
  cell.setAttribute("tabindex", "0");
  cell.focus({ preventScroll: true });
}

function placeOf({ grid }: Shown, at: number): { gpu: number; iteration: number } | null {
  if (!grid || at < 0) return null;
  const columns = grid.iterations.length;
  return { gpu: grid.gpus[Math.floor(at / columns)] ?? -1, iteration: grid.iterations[at % columns] ?? -1 };
}

function choose(context: Context, shown: Shown, at: number): void {
  const place = placeOf(shown, at);
  if (place) toggle(context, shown, cellFilters(context.payload, place.gpu, place.iteration));
}

/** Select it, or release it if it is selected already. */
function toggle(context: Context, shown: Shown, filters: readonly Filter[]): void {
  if (!shown.grid?.enabled || filters.length === 0) return;
  const { selection } = context.store.get().synced;
  const is = filters.every(([level, code]) => codeOf(selection, level) === code);
  const both = release(selection, ["gpu", "iteration"]);
  context.select(is ? both : fix(both, filters));
}

function showTooltip(context: Context, event: PointerEvent, shown: Shown, at: number): void {
  const place = placeOf(shown, at);
  if (!place || !shown.grid) return context.tooltip.hide();
  const { payload } = context;
  const cell = shown.grid.variation.cells.find(
    (one) => one.gpu === place.gpu && one.iteration === place.iteration,
  );
  const title = capital(
    `${nameOf(payload, "gpu", place.gpu)}, ${nameOf(payload, "iteration", place.iteration)}`,
  );
  const rows: [string, string][] = cell
    ? [
        ["Time", time(cell.timeNs)],
        ["Against the median", change(cell.change)],
      ]
    : [["Time", "none"]];
  const words = plural(payload, "gpu");
  const note = shown.grid.enabled ? null : `Selecting ${words} here ${NEEDS_KERNEL}.`;
  context.tooltip.show(event, {
    title,
    rows,
    note: cell?.outlier && !note ? "Outlier: beyond 1.5 IQR." : note,
  });
}
