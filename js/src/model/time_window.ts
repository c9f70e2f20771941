/** The part of time that is shown: zoom, pan, and round numbers for its axis. */
import { nsPer, significant, timeUnitFor, withUnit } from "./format.ts";

export interface TimeWindow {
  readonly from: number;
  readonly to: number;
}

/** Nothing shorter is shown: kernels take microseconds. */
const SHORTEST_NS = 500;
const STEPS = [1, 2, 5] as const;

export function spanOf({ from, to }: TimeWindow): number {
  return to - from;
}

/** Inside the limits, whole nanoseconds, not too short. */
export function clampWindow({ from, to }: TimeWindow, limits: TimeWindow): TimeWindow {
  const whole = spanOf(limits);
  const span = Math.min(whole, Math.max(Math.min(SHORTEST_NS, whole), to - from));
  const start = Math.min(Math.max(from, limits.from), limits.to - span);
  return { from: Math.floor(start), to: Math.ceil(start + span) };
}

/** Make it shorter (factor under 1) or longer around a time that stays where it is. */
export function zoomAt(window: TimeWindow, at: number, factor: number, limits: TimeWindow): TimeWindow {
  const span = Math.max(SHORTEST_NS, spanOf(window) * factor);
  const share = (at - window.from) / spanOf(window);
  return clampWindow({ from: at - share * span, to: at + (1 - share) * span }, limits);
}

export function panBy(window: TimeWindow, ns: number, limits: TimeWindow): TimeWindow {
  return clampWindow({ from: window.from + ns, to: window.to + ns }, limits);
}

export function overlaps(window: TimeWindow, from: number, to: number): boolean {
  return from < window.to && to > window.from;
}

export interface Tick {
  readonly at: number;
  readonly label: string;
}

/** Round times for an axis with room for so many labels. */
export function ticksOf(window: TimeWindow, room: number, origin: number): Tick[] {
  const step = roundStep(spanOf(window) / Math.max(1, room));
  const unit = timeUnitFor(Math.max(step, Math.abs(window.to - origin)));
  const digits = Math.max(3, Math.ceil(Math.log10(Math.abs(window.to - origin) / step)) + 1);
  const ticks: Tick[] = [];
  const first = Math.ceil((window.from - origin) / step) * step;
  for (let at = first; at <= window.to - origin; at += step) {
    const text = at === 0 ? "0" : significant(at / nsPer(unit), Math.max(digits, 3));
    ticks.push({ at: at + origin, label: withUnit(trimmed(text), unit) });
  }
  return ticks;
}

/** Zeros at the end of a fraction tell nothing on an axis. */
function trimmed(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = STEPS.find((factor) => factor * power >= least);
  return step === undefined ? 10 * power : step * power;
}
