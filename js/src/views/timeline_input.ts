/** Pointer, wheel and keys of the timeline. */
import { time } from "../model/format.ts";
import { shortKernels } from "../model/names.ts";
import { besideSlice, nameIn, sliceAt, sliceLabel } from "../model/timeline.ts";
import { rowAt } from "../model/timeline_rows.ts";
import { panBy, spanOf, zoomAt, type TimeWindow } from "../model/time_window.ts";
import type { Context } from "./context.ts";
import { iterationAround, type TimelineState } from "./timeline.ts";

export interface InputOptions {
  readonly surface: HTMLElement;
  readonly left: number;
  go(window: TimeWindow): void;
  redraw(): void;
  /** Show the details of a slice, or none. */
  choose(slice: number | null): void;
}

/** A pointer that moved less was a click. */
const CLICK_PX = 4;
const NEAR_PX = 4;
const WHEEL = 0.0015;

export function listenToTimeline(context: Context, state: TimelineState, options: InputOptions): void {
  dragAndClick(context, state, options);
  options.surface.addEventListener(
    "wheel",
    (event) => {
      // The notebook must still scroll: the wheel zooms only what has the focus, or with Ctrl.
      const mine = document.activeElement === options.surface || event.ctrlKey;
      if (!mine) return;
      event.preventDefault();
      const wide = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (wide) options.go(panBy(state.window, event.deltaX * nsPerPixel(state), state.limits));
      else {
        const factor = Math.exp(Math.max(-300, Math.min(300, event.deltaY)) * WHEEL);
        options.go(zoomAt(state.window, timeAt(state, options, event), factor, state.limits));
      }
    },
    { passive: false },
  );
  options.surface.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (!pressKey(context, state, options, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

const nsPerPixel = ({ window, scene }: TimelineState) => spanOf(window) / Math.max(1, scene?.width ?? 800);

function timeAt(state: TimelineState, { surface, left }: InputOptions, event: MouseEvent): number {
  const x = event.clientX - surface.getBoundingClientRect().left - left;
  return state.window.from + x * nsPerPixel(state);
}

function dragAndClick(context: Context, state: TimelineState, options: InputOptions): void {
  const { surface } = options;
  let from: { x: number; window: TimeWindow } | null = null;
  let moved = false;
  surface.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = { x: event.clientX, window: state.window };
    moved = false;
    surface.setPointerCapture(event.pointerId);
  });
  surface.addEventListener("pointermove", (event) => {
    if (!from) return hover(context, state, options, event);
    const by = event.clientX - from.x;
    moved ||= Math.abs(by) >= CLICK_PX;
    if (!moved) return;
    context.tooltip.hide();
    surface.classList.add("dragging");
    options.go(panBy(from.window, -by * nsPerPixel(state), state.limits));
  });
  surface.addEventListener("pointerup", (event) => {
    if (from && !moved) options.choose(hitSlice(state, options, event));
    from = null;
    surface.classList.remove("dragging");
  });
  surface.addEventListener("pointercancel", () => (from = null));
  surface.addEventListener("dblclick", (event) => {
    const slice = hitSlice(state, options, event);
    if (slice !== null) zoomTo(state, options, slice);
  });
  surface.addEventListener("pointerleave", () => {
    context.tooltip.hide();
    if (state.hovered === null) return;
    state.hovered = null;
    options.redraw();
  });
}

function hitSlice(state: TimelineState, options: InputOptions, event: MouseEvent): number | null {
  const y = event.clientY - options.surface.getBoundingClientRect().top;
  const row = rowAt(state.rows, y);
  if (!state.scene || row?.kind !== "lane") return null;
  return sliceAt(state.scene.picture, row.lane, timeAt(state, options, event), NEAR_PX * nsPerPixel(state));
}

function hover(context: Context, state: TimelineState, options: InputOptions, event: PointerEvent): void {
  const slice = hitSlice(state, options, event);
  if (slice !== state.hovered) {
    state.hovered = slice;
    options.redraw();
  }
  if (slice !== null && state.scene) showTooltip(context, state, event, slice);
  else if (!gapTooltip(context, state, options, event)) context.tooltip.hide();
}

function showTooltip(context: Context, { scene }: TimelineState, event: PointerEvent, slice: number): void {
  if (!scene) return;
  const { picture } = scene;
  const { slices } = picture;
  const count = slices.count[slice] ?? 1;
  const family = context.payload.families[slices.family[slice] ?? -1]?.title ?? "";
  const rows: [string, string][] = [["Time", time(slices.dur[slice] ?? 0)]];
  for (const level of ["op", "layer", "phase"] as const) {
    const name = nameIn(picture, level, slice);
    if (name) rows.push([level.charAt(0).toUpperCase() + level.slice(1), name]);
  }
  if (count > 1) {
    rows[0] = ["From first to last", time(slices.dur[slice] ?? 0)];
    rows.push(["Filled", `${slices.fill[slice] ?? 100}\u202f%`], ["Mostly", family]);
    context.tooltip.show(event, {
      title: shortKernels(context.payload, count),
      rows,
      note: "Zoom in to tell them apart.",
    });
    return;
  }
  context.tooltip.show(event, {
    title: sliceLabel(picture, slice),
    code: nameIn(picture, "kernel", slice),
    rows,
  });
}

/** Over idle time the tooltip says why; true if there is some. */
function gapTooltip(
  context: Context,
  state: TimelineState,
  options: InputOptions,
  event: PointerEvent,
): boolean {
  const row = rowAt(state.rows, event.clientY - options.surface.getBoundingClientRect().top);
  const gaps = state.scene?.picture.gaps;
  if (!gaps || row?.kind !== "lane") return false;
  const at = timeAt(state, options, event);
  const found = gaps.start.findIndex(
    (start, i) => gaps.gpu[i] === row.gpu && at >= start && at < start + (gaps.dur[i] ?? 0),
  );
  if (found < 0) return false;
  const title = state.info.causes[gaps.code[found] ?? -1]?.title ?? "";
  context.tooltip.show(event, { title: `Idle: ${title}`, rows: [["Time", time(gaps.dur[found] ?? 0)]] });
  return true;
}

function zoomTo(state: TimelineState, options: InputOptions, slice: number): void {
  const slices = state.scene?.picture.slices;
  const start = slices?.start[slice] ?? 0;
  const dur = Math.max(slices?.dur[slice] ?? 0, 1000);
  const span = zoomAt({ from: start - dur, to: start + 2 * dur }, start, 1, state.limits);
  options.go(span);
}

/** True if the key means something here. */
function pressKey(context: Context, state: TimelineState, options: InputOptions, key: string): boolean {
  const { window, limits } = state;
  const middle = (window.from + window.to) / 2;
  const pan = { ArrowLeft: -0.2, ArrowRight: 0.2, PageUp: -0.9, PageDown: 0.9 }[key];
  const zoom = { "+": 0.6, "=": 0.6, "-": 1 / 0.6, _: 1 / 0.6 }[key];
  if (pan !== undefined) options.go(panBy(window, pan * spanOf(window), limits));
  else if (zoom !== undefined) options.go(zoomAt(window, middle, zoom, limits));
  else if (key === "0") options.go(iterationAround(state));
  else if (key === "9") options.go(limits);
  else if (key === "n" || key === "p") stepKernel(state, options, key === "n" ? 1 : -1);
  else if (key === "ArrowUp" || key === "ArrowDown") stepLane(state, options, key === "ArrowUp" ? -1 : 1);
  else if (key === "Escape" && state.chosen !== null) options.choose(null);
  else if (key === "Enter" && state.chosen !== null) selectChosen(context, state);
  else return false;
  return true;
}

/** Walk along the lane, and move the window when the kernel leaves it. */
function stepKernel(state: TimelineState, options: InputOptions, step: 1 | -1): void {
  const picture = state.scene?.picture;
  if (!picture) return;
  const lane = state.rows.find(({ kind }) => kind === "lane")?.lane ?? 0;
  const middle = (state.window.from + state.window.to) / 2;
  const next =
    state.chosen === null
      ? sliceAt(picture, lane, middle, spanOf(state.window))
      : besideSlice(picture, state.chosen, step);
  if (next === null) return;
  options.choose(next);
  bring(state, options, next);
}

function bring(state: TimelineState, options: InputOptions, slice: number): void {
  const start = state.scene?.picture.slices.start[slice] ?? 0;
  const { from, to } = state.window;
  if (start < from || start > to) options.go(panBy(state.window, start - (from + to) / 2, state.limits));
}

function stepLane(state: TimelineState, options: InputOptions, step: 1 | -1): void {
  const picture = state.scene?.picture;
  if (!picture) return;
  const lanes = state.rows.filter(({ kind }) => kind === "lane").map(({ lane }) => lane);
  const chosen = state.chosen;
  const at = chosen === null ? -step : lanes.indexOf(picture.slices.lane[chosen] ?? -1);
  const middle = (state.window.from + state.window.to) / 2;
  const time = chosen === null ? middle : (picture.slices.start[chosen] ?? middle);
  const next = sliceAt(picture, lanes[at + step] ?? lanes[0] ?? 0, time, spanOf(state.window));
  if (next !== null) options.choose(next);
}

function selectChosen(context: Context, state: TimelineState): void {
  const { scene, chosen } = state;
  if (scene && chosen !== null) context.selectNamed(scene.picture, chosen);
}
