/** Draws the GPU x iteration grid and the strip with the spread of its cells. */
import { diverging, inkOn } from "../model/colour.ts";
import { change, time } from "../model/format.ts";
import type { Cell, Variation } from "../model/variation.ts";
import { nameOf } from "../model/names.ts";
import { codeOf, toLabels } from "../model/selection.ts";
import type { Filter } from "../model/payload.ts";
import type { Context } from "./context.ts";
import { svg } from "./element.ts";
import { drawRaster, MOST_CELL_ELEMENTS, type Raster } from "./heatmap_raster.ts";

const TOP = 18;
const RIGHT = 52;
const SPREAD = 54;
/** Up to so many GPUs, rows are so high. */
const ROW_HEIGHTS = [
  [16, 20],
  [48, 14],
  [128, 8],
] as const;
const LEAST_ROW = 4;

export interface Grid {
  readonly gpus: readonly number[];
  readonly iterations: readonly number[];
  readonly width: number;
  readonly selection: readonly Filter[];
  readonly enabled: boolean;
  /** GPUs times iterations of one cell: 1. */
  readonly variation: Variation;
}

export interface Drawn {
  /** Labels and marks around the cells. */
  readonly parts: SVGElement[];
  readonly rows: SVGElement[];
  /** In reading order; none where they are one image. */
  readonly cells: SVGElement[];
  readonly height: number;
  readonly raster: Raster | null;
  /** The element of one cell of the image. */
  cursor(index: number): SVGElement | null;
}

interface Frame extends Grid {
  readonly left: number;
  readonly cell: number;
  readonly row: number;
  readonly right: number;
}

/** Elements of the picture and its height. Cells are in reading order. */
export function drawGrid(context: Context, grid: Grid): Drawn {
  const frame = frameOf(context, grid);
  const found = new Map(grid.variation.cells.map((cell) => [`${cell.gpu},${cell.iteration}`, cell]));
  const at = (r: number, c: number) => found.get(`${grid.gpus[r] ?? -1},${grid.iterations[c] ?? -1}`);
  const place = (r: number, c: number) => ({
    gpu: grid.gpus[r] ?? -1,
    iteration: grid.iterations[c] ?? -1,
    r,
    c,
  });
  const cellAt = (r: number, c: number) => drawCell(context, frame, place(r, c), at(r, c));
  const labels = grid.gpus.flatMap((gpu, r) => rowLabels(context, frame, gpu, r));
  const bottom = TOP + grid.gpus.length * frame.row;
  const around = [...columnLabels(context, frame), ...labels, ...drawSpread(context, frame, bottom + 12)];
  const height = bottom + 12 + SPREAD;
  const columns = grid.iterations.length;
  if (grid.gpus.length * columns > MOST_CELL_ELEMENTS) {
    const { left, cell, row } = frame;
    const rows = grid.gpus.length;
    const limit = grid.variation.limit;
    const raster = drawRaster(context, { left, top: TOP, cell, row, columns, rows, limit }, at);
    const cursor = (index: number) => cellAt(Math.floor(index / columns), index % columns);
    return { parts: [...around, raster.image], rows: [], cells: [], height, raster, cursor };
  }
  const rows = grid.gpus.map((_, r) => {
    const cells = grid.iterations.map((__, c) => cellAt(r, c));
    return svg("g", { role: "row" }, ...cells);
  });
  const cells = rows.flatMap((row) => [...row.children] as SVGElement[]);
  return { parts: around, rows, cells, height, raster: null, cursor: () => null };
}

function frameOf(context: Context, grid: Grid): Frame {
  const measure = context.measure(11);
  const labels = grid.gpus.map((gpu) => measure(nameOf(context.payload, "gpu", gpu)));
  const left = Math.min(120, Math.max(40, ...labels)) + 8;
  const right = grid.gpus.length > 1 ? RIGHT : 0;
  const row = ROW_HEIGHTS.find(([most]) => grid.gpus.length <= most)?.[1] ?? LEAST_ROW;
  const cell = Math.min(72, (grid.width - left - right) / Math.max(1, grid.iterations.length));
  return { ...grid, left, right, row, cell };
}

function columnLabels(context: Context, frame: Frame): SVGElement[] {
  const step = Math.max(1, Math.ceil(24 / frame.cell));
  const number = (code: number) => context.payload.dictionaries.iteration[code]?.label ?? "all";
  const labels = frame.iterations.flatMap((code, i) =>
    i % step
      ? []
      : [
          svg(
            "text",
            { class: "d", x: frame.left + frame.cell * (i + 0.5), y: 11, "text-anchor": "middle" },
            number(code),
          ),
        ],
  );
  if (frame.right)
    labels.push(svg("text", { class: "d", x: rightEdge(frame), y: 11, "text-anchor": "end" }, "mean"));
  return labels;
}

function rightEdge(frame: Frame): number {
  return frame.left + frame.cell * frame.iterations.length + frame.right;
}

function rowLabels(context: Context, frame: Frame, gpu: number, r: number): SVGElement[] {
  const every = Math.ceil(12 / frame.row);
  if (r % every) return [];
  const y = TOP + r * frame.row + frame.row / 2 + 4;
  const chosen = codeOf(frame.selection, "gpu") === gpu;
  const name = svg(
    "text",
    { class: chosen ? "gpu on" : "gpu d", x: 0, y, "data-gpu-label": gpu },
    nameOf(context.payload, "gpu", gpu),
  );
  if (!frame.right) return [name];
  const mine = frame.variation.cells.filter((cell) => cell.gpu === gpu);
  const mean = mine.reduce((total, cell) => total + cell.change, 0) / mine.length;
  const strong = Math.abs(mean) > 0.4 * frame.variation.limit && frame.variation.outliers > 0;
  const value = svg(
    "text",
    { class: strong ? "on" : "d", x: rightEdge(frame), y, "text-anchor": "end" },
    change(mean),
  );
  return [name, value];
}

interface Place {
  readonly gpu: number;
  readonly iteration: number;
  readonly r: number;
  readonly c: number;
}

function drawCell(context: Context, frame: Frame, at: Place, cell: Cell | undefined): SVGElement {
  const { payload } = context;
  const fill = cell ? diverging(context.theme(), 0.5 + cell.change / frame.variation.limit / 2) : null;
  const x = frame.left + frame.cell * at.c;
  const y = TOP + at.r * frame.row;
  const gap = frame.cell > 4 ? 1 : 0;
  const labels = toLabels(payload, [
    ["gpu", at.gpu],
    ["iteration", at.iteration],
  ]);
  const words = cell
    ? `${time(cell.timeNs)}, ${change(cell.change)}${cell.outlier ? ", outlier" : ""}`
    : "no time";
  const group = svg("g", {
    role: "gridcell",
    tabindex: -1,
    class: isDimmed(frame, at) ? "cell dimmed" : "cell",
    "data-gpu": labels[0]?.[1] ?? "",
    "data-iteration": labels[1]?.[1] ?? "",
    "aria-label": `${nameOf(payload, "gpu", at.gpu)}, ${nameOf(payload, "iteration", at.iteration)}, ${words}`,
    "aria-selected": isChosen(frame, at) ? "true" : null,
    "aria-disabled": frame.enabled ? null : "true",
  });
  const box = {
    x,
    y,
    width: Math.max(0.5, frame.cell - gap),
    height: frame.row - 1,
    rx: frame.cell > 8 ? 2 : 0,
  };
  group.append(svg("rect", { ...box, class: "fill", fill: fill ?? "var(--cj-idle)" }));
  if (cell?.outlier && fill) {
    const ink = inkOn(fill);
    group.append(
      svg("circle", {
        cx: x + box.width / 2,
        cy: y + box.height / 2,
        r: Math.min(2, frame.cell / 4),
        fill: ink,
      }),
    );
  }
  return group;
}

/** A level of a single value needs no choice. */
function isChosen({ selection, gpus, iterations }: Frame, at: Place): boolean {
  const fixed = (level: "gpu" | "iteration", value: number, single: boolean) =>
    single || codeOf(selection, level) === value;
  return fixed("gpu", at.gpu, gpus.length === 1) && fixed("iteration", at.iteration, iterations.length === 1);
}

function isDimmed({ selection }: Frame, at: Place): boolean {
  const gpu = codeOf(selection, "gpu");
  const iteration = codeOf(selection, "iteration");
  return (gpu !== undefined && gpu !== at.gpu) || (iteration !== undefined && iteration !== at.iteration);
}

/** Every cell as a dot over its time; the line is the median. */
function drawSpread(context: Context, frame: Frame, top: number): SVGElement[] {
  const { cells, medianNs, shortestNs, longestNs } = frame.variation;
  const right = frame.left + frame.cell * frame.iterations.length;
  const span = longestNs - shortestNs;
  const at = (ns: number) =>
    frame.left + 4 + (span > 0 ? (ns - shortestNs) / span : 0.5) * (right - frame.left - 8);
  const dots = cells.map((cell, i) => {
    const y = top + 6 + ((i * 7) % 16); // spread in height only so that dots do not hide each other
    return svg("circle", { cx: at(cell.timeNs), cy: y, r: 2.5, class: cell.outlier ? "dot out" : "dot" });
  });
  const x = at(medianNs);
  const line = svg("line", { x1: x, x2: x, y1: top, y2: top + 28, class: "median" });
  const label = svg("text", { class: "d", x: 0, y: top + 18 }, "Spread");
  const middle = `median ${time(medianNs)}`;
  const half = context.measure(11)(middle) / 2;
  const placed = Math.min(Math.max(x, frame.left + half), Math.max(right - half, frame.left + half));
  const words = svg("text", { x: placed, y: top + 42, "text-anchor": "middle" }, middle);
  const most = time(longestNs);
  const room = right - context.measure(11)(most) - 8 > placed + half;
  const end = svg("text", { class: "d", x: right, y: top + 42, "text-anchor": "end" }, room ? most : "");
  return [label, ...dots, line, words, end];
}
