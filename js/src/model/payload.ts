/** What Python hands over: dictionaries, the table of metrics, and pre-aggregated cubes. */
import type { TimelineInfo } from "./timeline.ts";

export const LEVELS = ["gpu", "iteration", "phase", "layer", "op", "kernel"] as const;
export type Level = (typeof LEVELS)[number];

/** A level fixed to one value; code -1 stands for null. */
export type Filter = readonly [level: Level, code: number];

export interface Entry {
  readonly label: string;
  /** Readable short form, shown beside or instead of the label. */
  readonly short?: string;
  /** Kernels only: name of the family. */
  readonly family?: string;
  /** GPUs and iterations only: their number. */
  readonly value?: number;
}

export interface Family {
  readonly name: string;
  readonly title: string;
}

/** Value = sum(numerator x sums) / sum(denominator x sums); unit "%" means times 100. */
export interface Metric {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
  readonly numerator: Readonly<Record<string, number>>;
  readonly denominator: Readonly<Record<string, number>>;
  readonly meaning: string;
  readonly needs: string | null;
  /** A difference: its colours have a neutral middle at 0. */
  readonly diverging?: boolean;
  /** Not a ratio of sums but how they vary over the values of a level. */
  readonly over?: Level;
}

/** Measures summed per combination of level codes; one array entry per row. */
export interface Cube {
  readonly levels: readonly Level[];
  readonly codes: readonly (readonly number[])[];
  readonly measures: Readonly<Record<string, readonly number[]>>;
  /** What was merged to keep the cube small; null if it is exact. */
  readonly coarse: string | null;
}

export interface Finding {
  readonly title: string;
  readonly detail: string;
  readonly value: string;
  /** The numbers behind, shown when pointed at. */
  readonly evidence?: string;
  readonly selection: readonly LabelledFilter[];
}

/** What was not recorded, and the command that records it. */
export interface Missing {
  readonly name: string;
  readonly title: string;
  readonly text: string;
  readonly command: string;
}

/** Parts of one trace that the other lacks; times are per iteration and GPU. */
export interface Unmatched {
  readonly count: number;
  readonly ns: number;
  readonly rows: readonly {
    readonly label: string;
    readonly ns: number;
    readonly selection: readonly LabelledFilter[];
  }[];
}

export interface Comparison {
  readonly title: string;
  readonly instances: { readonly gpus: number; readonly iterations: number };
  readonly cubes: readonly Cube[];
  readonly only_here: Unmatched;
  readonly only_there: Unmatched;
}

/** A share of wall time; `idle` if the GPU did nothing. */
export interface Part {
  readonly name: string;
  readonly title: string;
  readonly idle: boolean;
}

/** A part between theoretical and actual time. */
export interface OverheadPart {
  readonly name: string;
  readonly title: string;
  readonly meaning: string;
}

/** One entry per row: a selection that fixes these levels to these codes; times in ns. */
export interface OverheadTable {
  readonly levels: readonly Level[];
  readonly codes: readonly (readonly number[])[];
  readonly actual: readonly number[];
  readonly ns: Readonly<Record<string, readonly (number | null)[]>>;
  /** Half of the 95 % interval, of the parts that have one. */
  readonly half: Readonly<Record<string, readonly (number | null)[]>>;
  /** -1: known, -2: not applicable; else why it is not known, as a place in `reasons`. */
  readonly why: Readonly<Record<string, readonly number[]>>;
}

export interface Overheads {
  readonly parts: readonly OverheadPart[];
  readonly reasons: readonly string[];
  readonly tables: readonly OverheadTable[];
}

/** A value as Python says it: labels survive where codes do not; numbers for GPU and iteration. */
export type LabelledFilter = [level: string, label: string | number | null];

export interface Payload {
  readonly version: number;
  readonly uid: string;
  readonly title: string;
  readonly device_kind: "gpu" | "cpu";
  readonly simulated: boolean;
  readonly facts: readonly { readonly label: string; readonly value: string }[];
  readonly quality: { readonly phrase: string; readonly good: boolean; readonly lines: readonly string[] };
  readonly included: string;
  readonly instances: { readonly gpus: number; readonly iterations: number };
  readonly iteration_numbers: readonly number[];
  readonly order: readonly Level[];
  readonly dictionaries: Readonly<Record<Level, readonly Entry[]>>;
  readonly families: readonly Family[];
  readonly metrics: readonly Metric[];
  readonly cubes: readonly Cube[];
  readonly totals: Readonly<Record<string, number>>;
  /** Parts of wall time, and sums of them named after the parts. */
  readonly parts?: readonly Part[];
  readonly part_cubes?: readonly Cube[];
  /** Null where no counters were recorded. */
  readonly overheads?: Overheads | null;
  readonly timeline?: TimelineInfo | null;
  /** Measures that can size the icicle. */
  readonly sizes?: readonly { readonly name: string; readonly title: string }[];
  readonly findings?: readonly Finding[];
  readonly missing?: readonly Missing[];
  /** The other trace, where two are compared. */
  readonly compare?: Comparison;
  readonly breakdown: readonly { readonly name: string; readonly title: string; readonly ns: number }[];
  /** Static pages only: what was selected when the page was made, and how it looked. */
  readonly selection?: readonly LabelledFilter[];
  readonly metric?: string;
  readonly size?: string;
  readonly theme?: "" | "light" | "dark";
}

const VERSION = 1;

/** Check the parts whose absence would only show much later, and type the rest. */
export function readPayload(data: unknown): Payload {
  const payload = data as Partial<Payload> | null;
  if (payload?.version !== VERSION) {
    throw new Error(`This view reads data of version ${VERSION}, not ${String(payload?.version)}.`);
  }
  for (const part of ["dictionaries", "cubes", "metrics", "totals", "order", "instances"] as const) {
    if (payload[part] === undefined) throw new Error(`The data lacks "${part}".`);
  }
  return payload as Payload;
}

export function isLevel(text: string): text is Level {
  return (LEVELS as readonly string[]).includes(text);
}
