/** Rows of the timeline from the top down: what is where, and how high. */
import type { Lane, Picture, Scale, SpanLevel } from "./timeline.ts";

export interface TimelineRow {
  readonly kind: "span" | "lane" | "launches" | "track" | "axis";
  readonly label: string;
  readonly y: number;
  readonly height: number;
  readonly gpu: number;
  /** Position among the lanes, for lanes. */
  readonly lane: number;
  readonly level?: SpanLevel;
  readonly scale?: Scale;
  /** Titles of a GPU's first row, where several are stacked. */
  readonly heading: string;
}

const HEIGHTS = { compute: 24, communication: 18, copies: 12, launches: 12, span: 16, track: 32, axis: 18 };
const GAP = 3;
const GPU_GAP = 8;
const HEADING = 16;

const SPAN_TITLES: Readonly<Record<SpanLevel, string>> = {
  iteration: "Iteration",
  phase: "Phase",
  layer: "Layer",
};

export interface RowOptions {
  readonly gpus: readonly number[];
  readonly scales: readonly Scale[];
  readonly gpuTitle: (gpu: number) => string;
  readonly cpu: boolean;
}

export function rowsOf(picture: Picture, options: RowOptions): { rows: TimelineRow[]; height: number } {
  const rows: TimelineRow[] = [];
  let y = 0;
  const add = (row: Omit<TimelineRow, "y" | "lane" | "heading"> & { lane?: number; heading?: string }) => {
    const heading = row.heading ?? "";
    if (heading) y += HEADING;
    rows.push({ lane: -1, ...row, heading, y });
    y += row.height + GAP;
  };
  for (const level of ["iteration", "phase", "layer"] as const) {
    if (picture.spans[level].start.length)
      add({ kind: "span", label: SPAN_TITLES[level], height: HEIGHTS.span, gpu: -1, level });
  }
  options.gpus.forEach((gpu) => {
    y += GPU_GAP - GAP;
    let heading = options.gpus.length > 1 ? options.gpuTitle(gpu) : "";
    picture.lanes.forEach((lane, place) => {
      if (lane.gpu !== gpu) return;
      const label = laneLabel(picture.lanes, lane, options.cpu);
      add({ kind: "lane", label, height: HEIGHTS[lane.kind], gpu, lane: place, heading });
      heading = "";
    });
    if (picture.launches.gpu.includes(gpu))
      add({ kind: "launches", label: "CPU launches", height: HEIGHTS.launches, gpu });
    for (const scale of options.scales)
      if (picture.tracks.some((track) => track.gpu === gpu && track.metric === scale.metric))
        add({ kind: "track", label: scale.title, height: HEIGHTS.track, gpu, scale });
  });
  add({ kind: "axis", label: "", height: HEIGHTS.axis, gpu: -1 });
  return { rows, height: y };
}

/** Streams are named only where there are several of a kind. */
function laneLabel(lanes: readonly Lane[], lane: Lane, cpu: boolean): string {
  const title = cpu && lane.kind === "compute" ? "Operators" : lane.title;
  const alike = lanes.filter(({ gpu, kind }) => gpu === lane.gpu && kind === lane.kind);
  if (alike.length === 1) return title;
  return `${title} ${lane.streams.length > 1 ? "others" : String(lane.streams[0] ?? "")}`;
}

export function rowAt(rows: readonly TimelineRow[], y: number): TimelineRow | null {
  return rows.find((row) => y >= row.y && y < row.y + row.height) ?? null;
}
