/** What every view is given. */
import type { DataSource } from "../bridge/source.ts";
import type { Theme } from "../model/colour.ts";
import type { OtherTime } from "../model/comparison.ts";
import type { Measure } from "../model/fit.ts";
import type { Filter, Metric, Payload } from "../model/payload.ts";
import type { Picture } from "../model/timeline.ts";
import type { Drill } from "../store/drill.ts";
import type { Questions } from "../store/questions.ts";
import type { Spreads } from "../store/spread_source.ts";
import type { State, Store } from "../store/state.ts";
import type { Tooltip } from "./tooltip.ts";

export interface Context {
  readonly payload: Payload;
  readonly metrics: readonly Metric[];
  readonly store: Store;
  readonly source: DataSource;
  readonly questions: Questions;
  readonly tooltip: Tooltip;
  /** The other trace's time of a part; null where nothing is compared, or nothing matches. */
  other: OtherTime;
  /** How much the parts of the selection vary over iterations. */
  spreads(): Spreads;
  theme(): Theme;
  /** The tree below the present selection. */
  drill(): Drill;
  /** Replace the selection. */
  select(selection: readonly Filter[]): void;
  /** Select what a slice of the timeline is named after: its phase, layer and op. */
  selectNamed(picture: Picture, slice: number): void;
  /** Take the last filter off the selection. */
  up(): void;
  /** True if the sums of this selection can be had. */
  canSelect(selection: readonly Filter[]): boolean;
  /** Mark a value in every view that shows it. */
  hover(filter: Filter | null): void;
  /** Say something to screen readers. */
  announce(text: string): void;
  /** Width of a text in the interface font. */
  measure(size: number, weight?: number): Measure;
}

export interface View {
  readonly element: HTMLElement;
  draw(state: State): void;
}

export const NEEDS_KERNEL = "needs a running Jupyter kernel";

export function hoverKey(filter: Filter): string {
  return `${filter[0]}=${filter[1]}`;
}
