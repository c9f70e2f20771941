/** Which values a search text means, and which bars it leaves lit. */
import type { Bar } from "./icicle.ts";
import { nameOf, shortNameOf } from "./names.ts";
import type { Filter, Payload } from "./payload.ts";

/** True if the name or its short form contains the text, whatever the case. */
export function matches(payload: Payload, filter: Filter, search: string): boolean {
  const text = search.trim().toLowerCase();
  const names = [nameOf(payload, ...filter), shortNameOf(payload, ...filter)];
  return text === "" || names.some((name) => name.toLowerCase().includes(text));
}

/** Bars to fade: those that neither match, nor hold a match, nor lie in one. */
export function fadedBars(payload: Payload, bars: readonly Bar[], search: string): Set<Bar> {
  if (search.trim() === "") return new Set();
  const inside = new Set<Bar>();
  const lit = new Set<Bar>();
  for (const bar of bars) {
    const last = bar.path[bar.path.length - 1];
    const hit = bar.kind === "node" && last !== undefined && matches(payload, last, search);
    if (!hit && !(bar.parent && inside.has(bar.parent))) continue;
    inside.add(bar);
    for (let at: Bar | null = bar; at && !lit.has(at); at = at.parent) lit.add(at);
  }
  return new Set(bars.filter((bar) => !lit.has(bar)));
}
