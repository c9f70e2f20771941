/** What the hatches mean, and whether short kernels were merged. */
import { count as countText } from "../model/format.ts";
import type { Picture } from "../model/timeline.ts";
import { overlaps } from "../model/time_window.ts";
import type { Context } from "./context.ts";
import { el } from "./element.ts";
import { causeInk } from "./timeline_palette.ts";
import type { TimelineState } from "./timeline.ts";

export function causeLegend(context: Context, state: TimelineState, picture: Picture): HTMLElement[] {
  const { gaps, slices } = picture;
  const inView = (start: number, dur: number) => overlaps(state.window, start, start + dur);
  const seen = new Set<number>();
  gaps.code.forEach((code, i) => {
    if (state.gpus.includes(gaps.gpu[i] ?? -1) && inView(gaps.start[i] ?? 0, gaps.dur[i] ?? 0))
      seen.add(code);
  });
  const items = state.info.causes.flatMap(({ name, title }, code) =>
    seen.has(code) ? [el("span", {}, el("i", { style: hatch(causeInk(name)) }), `Idle: ${title}`)] : [],
  );
  const shown = picture.lanes.map(({ gpu }) => state.gpus.includes(gpu));
  let merged = 0;
  slices.count.forEach((count, i) => {
    const seen = shown[slices.lane[i] ?? -1] && inView(slices.start[i] ?? 0, slices.dur[i] ?? 0);
    if (count > 1 && seen) merged += count;
  });
  const what = context.payload.device_kind === "cpu" ? "operators" : "kernels";
  const note = merged
    ? el(
        "span",
        { "data-testid": "merged" },
        `${countText(merged)} short ${what} are drawn merged; their height is the share of time they fill`,
      )
    : null;
  return note ? [...items, note] : items;
}

function hatch(property: string): string {
  return `background:repeating-linear-gradient(135deg,transparent 0 2px,var(${property}) 2px 3.5px);outline:1px solid var(--cj-line)`;
}
