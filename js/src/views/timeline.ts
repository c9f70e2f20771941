/** When it ran: lanes per GPU on one clock, with what the GPUs waited for. */
import { time } from "../model/format.ts";
import type { Filter } from "../model/payload.ts";
import { codeOf, release } from "../model/selection.ts";
import type { TimelineInfo } from "../model/timeline.ts";
import { rowsOf, type TimelineRow } from "../model/timeline_rows.ts";
import { clampWindow, overlaps, spanOf, type TimeWindow } from "../model/time_window.ts";
import { createPictures, type PictureSource } from "../store/timeline_source.ts";
import { canvasPen, hatchPattern } from "./canvas.ts";
import type { Context, View } from "./context.ts";
import { changeGuard, el, replaceChildren } from "./element.ts";
import { gpuButtons } from "./gpu_buttons.ts";
import { createKernelPanel, type KernelPanel } from "./kernel_panel.ts";
import { missingNote } from "./missing.ts";
import { minimapView } from "./minimap.ts";
import { statusView } from "./panel_status.ts";
import { causeLegend } from "./timeline_legend.ts";
import { paintFlow } from "./timeline_flow.ts";
import { listenToTimeline } from "./timeline_input.ts";
import { paintScene, type Scene } from "./timeline_paint.ts";
import { readPalette } from "./timeline_palette.ts";

/** Pixels for the labels of the rows. */
const LEFT = 112;

export interface TimelineState {
  readonly info: TimelineInfo;
  readonly limits: TimeWindow;
  window: TimeWindow;
  gpus: readonly number[];
  /** The last picture painted, and what is marked in it. */
  scene: Scene | null;
  rows: readonly TimelineRow[];
  hovered: number | null;
  chosen: number | null;
}

/** Null where no timeline came along. */
export function timelineView(context: Context): View | null {
  const { timeline } = context.payload;
  if (!timeline) return null;
  const state: TimelineState = {
    info: timeline,
    limits: { from: timeline.from, to: timeline.to },
    window: { from: timeline.start[0], to: timeline.start[1] },
    gpus: timeline.shown,
    scene: null,
    rows: [],
    hovered: null,
    chosen: null,
  };
  const parts = makeParts(context, state, () => redraw());
  const pictures = createPictures(timeline, context.source, () => redraw());
  const changed = changeGuard();
  let waiting = 0;
  const redraw = () => {
    if (waiting) return;
    waiting = requestAnimationFrame(() => {
      waiting = 0;
      paint(context, state, parts, pictures);
    });
  };
  return {
    element: parts.element,
    draw: ({ synced }) => {
      const moved = changed(synced.selection);
      if (moved) follow(context, state, synced.selection);
      paint(context, state, parts, pictures);
    },
  };
}

interface Parts {
  readonly element: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  readonly surface: HTMLElement;
  readonly minimap: ReturnType<typeof minimapView>;
  readonly gpus: ReturnType<typeof gpuButtons>;
  readonly what: HTMLElement;
  readonly legend: HTMLElement;
  readonly status: ReturnType<typeof statusView>;
  readonly kernel: KernelPanel;
}

const ABOUT =
  "Timeline. Left and right arrows move, plus and minus zoom, 0 shows the iteration, 9 the whole run. " +
  "N and P go to the next and previous kernel, up and down to another lane, Enter selects its op.";

function makeParts(context: Context, state: TimelineState, redraw: () => void): Parts {
  const go = (window: TimeWindow) => {
    state.window = window;
    redraw();
  };
  const canvas = el("canvas", { "aria-hidden": "true" });
  const surface = el(
    "div",
    { class: "cj-lanes", role: "application", tabindex: 0, "aria-label": ABOUT, "data-testid": "timeline" },
    canvas,
  );
  const families = context.payload.families.map(({ name }) => name);
  const minimap = minimapView({ info: state.info, families, left: LEFT, go, shown: () => state.window });
  const gpus = gpuButtons(context, state, redraw);
  const what = el("p", { "data-testid": "timeline-window" });
  const legend = el("div", { class: "cj-legend cj-causes" });
  const status = statusView();
  const kernel = createKernelPanel(context, state, redraw);
  listenToTimeline(context, state, { surface, left: LEFT, go, redraw, choose: kernel.choose });
  const title = el("div", { class: "cj-h", role: "heading", "aria-level": 3 }, "Timeline");
  const buttons = zoomButtons(state, go);
  const element = el(
    "section",
    { class: "cj-panel cj-time", "aria-label": "Timeline" },
    el("header", {}, title, gpus.element, what, status.element, el("span", { class: "cj-sp" }), buttons),
    minimap.element,
    surface,
    legend,
    kernel.element,
    missingNote(context, "telemetry"),
  );
  return { element, canvas, surface, minimap, gpus, what, legend, status, kernel };
}

function zoomButtons(state: TimelineState, go: (window: TimeWindow) => void): HTMLElement {
  const scaled = (factor: number) => {
    const middle = (state.window.from + state.window.to) / 2;
    const half = (spanOf(state.window) * factor) / 2;
    go(clampWindow({ from: middle - half, to: middle + half }, state.limits));
  };
  const button = (text: string, title: string, onclick: () => void) =>
    el("button", { title, "aria-label": title, onclick }, text);
  return el(
    "div",
    { class: "cj-seg", role: "group", "aria-label": "Zoom of the timeline" },
    button("\u2212", "Zoom out", () => scaled(2)),
    button("+", "Zoom in", () => scaled(0.5)),
    state.info.iterations.length
      ? button("Iteration", "Show one iteration", () => go(iterationAround(state)))
      : null,
    button("Run", "Show the whole run", () => go(state.limits)),
  );
}

/** The iteration in the middle of what is shown. */
export function iterationAround({ info, window }: TimelineState): TimeWindow {
  const middle = (window.from + window.to) / 2;
  const away = (from: number, to: number) => (middle < from ? from - middle : Math.max(0, middle - to));
  const nearest = [...info.iterations].sort((a, b) => away(a.from, a.to) - away(b.from, b.to))[0];
  return nearest ? { from: nearest.from, to: nearest.to } : { from: info.start[0], to: info.start[1] };
}

/** Go where the selection is, unless it is in view already. */
function follow({ payload }: Context, state: TimelineState, selection: readonly Filter[]): void {
  const numberOf = (level: "gpu" | "iteration") =>
    payload.dictionaries[level][codeOf(selection, level) ?? -1]?.value;
  const gpu = numberOf("gpu");
  if (gpu !== undefined && !state.gpus.includes(gpu) && state.info.gpus.includes(gpu)) state.gpus = [gpu];
  const wanted = state.info.iterations.find(({ number }) => number === numberOf("iteration"));
  if (wanted && !overlaps(state.window, wanted.from, wanted.to))
    state.window = { from: wanted.from, to: wanted.to };
}

function paint(context: Context, state: TimelineState, parts: Parts, pictures: PictureSource): void {
  const { payload } = context;
  const root = parts.element.closest<HTMLElement>(".chopper-explorer");
  const width = parts.surface.clientWidth || 800;
  const filters = release(context.store.get().synced.selection, ["gpu"]);
  const wish = { window: state.window, gpus: state.gpus, width: width - LEFT, filters };
  const { picture, pending, failure } = pictures(wish);
  parts.status.set(pending, failure);
  parts.gpus.draw();
  parts.what.textContent = windowText(state);
  parts.kernel.draw();
  if (!root) return;
  const palette = readPalette(root, context.theme());
  parts.minimap.draw(state.window, width, palette);
  if (!picture) return;
  const gpuTitle = (gpu: number) =>
    payload.dictionaries.gpu.find(({ value }) => value === gpu)?.label ?? `GPU ${gpu}`;
  const cpu = payload.device_kind === "cpu";
  const options = { gpus: state.gpus, scales: state.info.tracks, gpuTitle, cpu };
  const { rows, height } = rowsOf(picture, options);
  const pen = canvasPen(parts.canvas, width, height);
  state.rows = rows;
  if (!pen) return;
  const causes = state.info.causes;
  state.scene = {
    pen, picture, rows, window: state.window, origin: state.info.start[0], left: LEFT,
    width: width - LEFT, palette, families: payload.families.map(({ name }) => name),
    causes: causes.map(({ name }) => name), causeTitles: causes.map(({ title }) => title),
    measure: context.measure(11), dimmed: dimmer(context, picture, filters),
    hatch: hatches(pen),
  }; // prettier-ignore
  paintScene(state.scene);
  paintFlow(state.scene, state, parts.kernel.details());
  replaceChildren(parts.legend, ...causeLegend(context, state, picture));
}

function hatches(pen: CanvasRenderingContext2D): (ink: string) => CanvasPattern | string {
  const known = new Map<string, CanvasPattern | string>();
  return (ink) => {
    const pattern = known.get(ink) ?? hatchPattern(pen, ink);
    known.set(ink, pattern);
    return pattern;
  };
}

/** What is not of the selection is dimmed: Python's marks, else the names of what is drawn. */
function dimmer(
  { payload }: Context,
  picture: Scene["picture"],
  filters: readonly Filter[],
): (slice: number) => boolean {
  if (filters.length === 0) return () => false;
  const { slices, names } = picture;
  const { matching } = slices;
  if (matching) return (slice) => matching[slice] === 0;
  const wanted = filters.map(([level, code]) => {
    const entry = payload.dictionaries[level][code];
    const local =
      level === "iteration"
        ? (entry?.value ?? -1)
        : names[level as "phase"].findIndex(({ label }) => label === entry?.label);
    return [slices[level as "phase"], code < 0 ? -1 : local < 0 ? -3 : local] as const;
  });
  return (slice) => wanted.some(([column, code]) => column[slice] !== code);
}

function windowText({ window, info }: TimelineState): string {
  const at = info.iterations.filter(({ from, to }) => overlaps(window, from, to));
  const first = at[0];
  const last = at[at.length - 1];
  const words = !first
    ? ""
    : first === last
      ? `iteration ${first.number}${first.measured ? "" : " (warm-up)"}, `
      : `iterations ${first.number} to ${last?.number ?? ""}, `;
  return `${words}${time(spanOf(window))} shown`;
}
