/** Widths of texts, so that labels are shortened rather than cut. */
import type { Measure } from "../model/fit.ts";

const GUESS = 0.56;

/** Measures in the element's font; guesses where there is nothing to draw on. */
export function textMeasure(element: HTMLElement): (size: number, weight?: number) => Measure {
  const pen = typeof OffscreenCanvas === "undefined" ? null : new OffscreenCanvas(1, 1).getContext("2d");
  const known = new Map<string, number>();
  return (size, weight = 400) => {
    if (!pen) return (text) => text.length * size * GUESS;
    const font = `${weight} ${size}px ${getComputedStyle(element).fontFamily || "sans-serif"}`;
    return (text) => {
      const key = `${font}|${text}`;
      let width = known.get(key);
      if (width === undefined) {
        pen.font = font;
        width = pen.measureText(text).width;
        if (known.size > 20_000) known.clear();
        known.set(key, width);
      }
      return width;
    };
  };
}
