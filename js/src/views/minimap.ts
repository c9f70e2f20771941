/** The whole run in one strip: how busy it was, its iterations, and which part is shown. */
import { time } from "../model/format.ts";
import type { TimelineInfo } from "../model/timeline.ts";
import { clampWindow, panBy, spanOf, zoomAt, type TimeWindow } from "../model/time_window.ts";
import { el } from "./element.ts";
import type { Palette } from "./timeline_palette.ts";
import { canvasPen } from "./canvas.ts";

const HEIGHT = 30;
const LABELS = 14;
const LEAST_BOX = 3;

export interface Minimap {
  readonly element: HTMLElement;
  draw(window: TimeWindow, width: number, palette: Palette): void;
}

export interface MinimapOptions {
  readonly info: TimelineInfo;
  readonly families: readonly string[];
  readonly left: number;
  go(window: TimeWindow): void;
  shown(): TimeWindow;
}

export function minimapView(options: MinimapOptions): Minimap {
  const { info, left } = options;
  const canvas = el("canvas", { "aria-hidden": "true" });
  const element = el(
    "div",
    {
      class: "cj-minimap",
      role: "slider",
      tabindex: 0,
      "data-testid": "minimap",
      "aria-label": "Part of the run that the timeline shows. Arrow keys move it.",
      "aria-valuemin": 0,
      "aria-valuemax": 100,
    },
    canvas,
  );
  let scale = 1;
  listen(element, options, () => scale);
  return {
    element,
    draw: (window, width, palette) => {
      const room = width - left;
      scale = (info.to - info.from) / Math.max(1, room);
      const pen = canvasPen(canvas, width, HEIGHT + LABELS);
      if (pen) paint(pen, options, window, room, palette);
      const middle = (window.from + window.to) / 2 - info.from;
      element.setAttribute("aria-valuenow", String(Math.round((100 * middle) / (info.to - info.from))));
      element.setAttribute(
        "aria-valuetext",
        `${time(window.from - info.from)} to ${time(window.to - info.from)} of ${time(info.to - info.from)}`,
      );
    },
  };
}

function paint(
  pen: CanvasRenderingContext2D,
  { info, families, left }: MinimapOptions,
  window: TimeWindow,
  room: number,
  palette: Palette,
): void {
  const xOf = (at: number) => left + ((at - info.from) / (info.to - info.from)) * room;
  const bins = info.minimap[0]?.length ?? 0;
  const width = room / Math.max(1, bins);
  pen.fillStyle = palette.sunk;
  pen.fillRect(left, 0, room, HEIGHT);
  for (let bin = 0; bin < bins; bin++) {
    let y = HEIGHT;
    info.minimap.forEach((shares, family) => {
      const height = (HEIGHT * (shares[bin] ?? 0)) / 100;
      pen.fillStyle = palette.family(families[family] ?? "");
      pen.fillRect(left + bin * width, y - height, width + 0.3, height);
      y -= height;
    });
  }
  pen.font = `11px ${palette.font}`;
  pen.fillStyle = palette.fg2;
  pen.fillText("Run", 0, HEIGHT / 2 + 4);
  paintIterations(pen, info, xOf, palette);
  const x = xOf(window.from);
  const box = Math.max(LEAST_BOX, xOf(window.to) - x);
  pen.fillStyle = palette.bg;
  pen.globalAlpha = 0.55;
  pen.fillRect(left, 0, x - left, HEIGHT);
  pen.fillRect(x + box, 0, left + room - x - box, HEIGHT);
  pen.globalAlpha = 1;
  pen.strokeStyle = palette.fg;
  pen.lineWidth = 1.5;
  pen.strokeRect(Math.min(x, left + room - box) + 0.75, 0.75, Math.max(1, box - 1.5), HEIGHT - 1.5);
  pen.lineWidth = 1;
}

function paintIterations(
  pen: CanvasRenderingContext2D,
  { iterations }: TimelineInfo,
  xOf: (at: number) => number,
  palette: Palette,
): void {
  let free = 0;
  for (const { number, from, to, measured } of iterations) {
    const x = xOf(from);
    pen.fillStyle = palette.fg2;
    pen.fillRect(Math.round(x), HEIGHT, 1, 4);
    const label = measured ? String(number) : `${number} warm-up`;
    const width = pen.measureText(label).width;
    const room = xOf(to) - x;
    const text = width + 6 <= room ? label : String(number);
    if (x < free) continue;
    pen.textAlign = "left";
    pen.fillText(text, x + 3, HEIGHT + 12);
    free = x + pen.measureText(text).width + 8;
  }
}

function listen(element: HTMLElement, options: MinimapOptions, scale: () => number): void {
  const { info, left } = options;
  const limits = { from: info.from, to: info.to };
  const centre = (event: PointerEvent) => {
    const x = event.clientX - element.getBoundingClientRect().left - left;
    const half = spanOf(options.shown()) / 2;
    const at = info.from + x * scale();
    options.go(clampWindow({ from: at - half, to: at + half }, limits));
  };
  element.addEventListener("pointerdown", (event) => {
    element.setPointerCapture(event.pointerId);
    centre(event);
  });
  element.addEventListener("pointermove", (event) => {
    if (element.hasPointerCapture(event.pointerId)) centre(event);
  });
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const window = options.shown();
    const step = { ArrowLeft: -0.5, ArrowRight: 0.5, PageUp: -1, PageDown: 1 }[event.key];
    const zoom = { ArrowUp: 0.5, ArrowDown: 2 }[event.key];
    if (step !== undefined) options.go(panBy(window, step * spanOf(window), limits));
    else if (zoom !== undefined) options.go(zoomAt(window, (window.from + window.to) / 2, zoom, limits));
    else if (event.key === "Home" || event.key === "End") {
      const to = event.key === "Home" ? info.from : info.to;
      options.go(panBy(window, to - window.from, limits));
    } else return;
    event.preventDefault();
  });
}
