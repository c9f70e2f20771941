/** Shortens names to a width: a name loses first what tells least. */

const ELLIPSIS = "\u2026";

/** Fewer letters than these tell nothing. */
const LEAST = { start: 3, end: 4 };

export type Measure = (text: string) => number;

/** Keep the start, or for kernel names the end, where they differ. Empty if nothing useful fits. */
export function fitText(text: string, width: number, measure: Measure, keep: "start" | "end"): string {
  if (measure(text) <= width) return text;
  const cut = (length: number) =>
    keep === "start"
      ? text.slice(0, length).trimEnd() + ELLIPSIS
      : ELLIPSIS + text.slice(text.length - length);
  let low = 0;
  let high = text.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (measure(cut(middle)) <= width) low = middle;
    else high = middle - 1;
  }
  return low >= LEAST[keep] ? cut(low) : "";
}

/** An op's path loses its prefix first (`self_attn.q_proj`, `aten::mm`), then its end. */
export function fitPath(path: string, width: number, measure: Measure): string {
  let rest = path;
  while (measure(rest) > width) {
    const shorter = rest.replace(/^[^.:]*(\.|::)(?=.)/, "");
    if (shorter === rest) break;
    rest = shorter;
  }
  return fitText(rest, width, measure, "start");
}
