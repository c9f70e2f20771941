/** What the timeline draws, as Python sends it. Starts travel as steps from the one before. */

export const SPAN_LEVELS = ["iteration", "phase", "layer"] as const;
export type SpanLevel = (typeof SPAN_LEVELS)[number];
export const TEXT_LEVELS = ["phase", "layer", "op", "kernel"] as const;
export type TextLevel = (typeof TEXT_LEVELS)[number];

type Column = readonly number[];

export interface Lane {
  readonly gpu: number;
  readonly kind: "compute" | "communication" | "copies";
  readonly title: string;
  readonly streams: readonly number[];
}

/** One kernel each, or several short ones merged; codes index `Picture.names`, -1 null, -2 mixed. */
export interface Slices extends Readonly<Record<TextLevel | "iteration", Column>> {
  readonly lane: Column;
  readonly start: Column;
  readonly dur: Column;
  readonly count: Column;
  /** How much of it kernels fill, in percent. */
  readonly fill: Column;
  readonly family: Column;
  /** Time from the start of the launch call to the start; -2 if unknown. */
  readonly wait: Column;
  readonly id?: Column;
  /** 1 where a kernel of the selection is in it; absent where nothing was selected. */
  readonly matching?: Column;
}

export interface Marks {
  readonly gpu: Column;
  readonly start: Column;
  readonly dur: Column;
  readonly code: Column;
  readonly count: Column;
}

export interface Spans {
  readonly start: Column;
  readonly dur: Column;
  readonly name: readonly string[];
}

export interface Samples {
  readonly gpu: number;
  readonly metric: string;
  readonly time: Column;
  readonly value: Column;
}

export interface Picture {
  readonly from: number;
  readonly to: number;
  readonly gpus: readonly number[];
  readonly lanes: readonly Lane[];
  readonly names: Readonly<Record<TextLevel, readonly { readonly label: string; readonly short?: string }[]>>;
  readonly slices: Slices;
  readonly gaps: Marks;
  readonly launches: Marks;
  readonly spans: Readonly<Record<SpanLevel, Spans>>;
  readonly tracks: readonly Samples[];
}

export interface Scale {
  readonly metric: string;
  readonly title: string;
  readonly unit: string;
  readonly highest: number;
}

export interface TimelineInfo {
  readonly from: number;
  readonly to: number;
  readonly gpus: readonly number[];
  /** GPUs to show at first. */
  readonly shown: readonly number[];
  /** The window to show at first. */
  readonly start: readonly [from: number, to: number];
  readonly iterations: readonly {
    readonly number: number;
    readonly from: number;
    readonly to: number;
    readonly measured: boolean;
  }[];
  /** Percent of every bin of the run that kernels of each family kept the GPUs busy. */
  readonly minimap: readonly Column[];
  readonly causes: readonly { readonly name: string; readonly title: string }[];
  readonly tracks: readonly Scale[];
  readonly embedded: readonly Picture[];
}

/** Turn steps into times, once per picture. */
export function unpackPicture(packed: Picture): Picture {
  const { spans } = packed;
  return {
    ...packed,
    slices: { ...packed.slices, start: running(packed.slices.start) },
    gaps: { ...packed.gaps, start: running(packed.gaps.start) },
    launches: { ...packed.launches, start: running(packed.launches.start) },
    spans: {
      iteration: { ...spans.iteration, start: running(spans.iteration.start) },
      phase: { ...spans.phase, start: running(spans.phase.start) },
      layer: { ...spans.layer, start: running(spans.layer.start) },
    },
    tracks: packed.tracks.map((track) => ({ ...track, time: running(track.time) })),
  };
}

function running(steps: Column): number[] {
  let at = 0;
  return steps.map((step) => (at += step));
}

/** The name of a slice on one level; null where it has none or its kernels differ. */
export function nameIn(picture: Picture, level: TextLevel, slice: number): string | null {
  const code = picture.slices[level][slice] ?? -1;
  return picture.names[level][code]?.label ?? null;
}

/** What stands on a slice. */
export function sliceLabel(picture: Picture, slice: number): string {
  const { slices, names } = picture;
  const op = nameIn(picture, "op", slice);
  if ((slices.count[slice] ?? 1) > 1) return "";
  const kernel = names.kernel[slices.kernel[slice] ?? -1];
  return op ?? kernel?.short ?? kernel?.label ?? "";
}

/** The slice of a lane at a time, with some tolerance on either side; null if there is none. */
export function sliceAt(picture: Picture, lane: number, time: number, near: number): number | null {
  const { slices } = picture;
  let best: number | null = null;
  let least = near;
  for (let i = 0; i < slices.lane.length; i++) {
    if (slices.lane[i] !== lane) continue;
    const start = slices.start[i] ?? 0;
    const end = start + (slices.dur[i] ?? 0);
    const away = time < start ? start - time : time > end ? time - end : 0;
    if (away <= least) {
      best = i;
      least = away;
    }
  }
  return best;
}

/** The next or previous slice in the same lane, or null at its end. */
export function besideSlice(picture: Picture, slice: number, step: 1 | -1): number | null {
  const next = slice + step;
  return picture.slices.lane[next] === picture.slices.lane[slice] ? next : null;
}
