/** Times per GPU and iteration of the selection, or of the nearest part of it that is at hand. */
import type { DataSource } from "../bridge/source.ts";
import type { Cube, Filter } from "../model/payload.ts";
import { release } from "../model/selection.ts";
import type { Answer, Questions } from "./questions.ts";

export interface VariationAnswer extends Answer {
  /** What the times are of: the selection without GPU and iteration, maybe without its last filters. */
  readonly filters: readonly Filter[];
  /** Filters left out because they need a running Jupyter kernel. */
  readonly left: readonly Filter[];
}

export type VariationView = (selection: readonly Filter[]) => VariationAnswer;

export function createVariation(source: DataSource, questions: Questions): VariationView {
  let last: { cube: Cube; filters: readonly Filter[] } | null = null;
  return (selection) => {
    const whole = release(selection, ["gpu", "iteration"]);
    const answer = questions.answer("variation", { levels: ["gpu", "iteration"], filters: whole });
    if (answer.cube) {
      last = { cube: answer.cube, filters: whole };
      return { ...answer, filters: whole, left: [] };
    }
    // The old picture stays until the new one is there.
    if (answer.pending && last) return { ...answer, ...last, left: [] };
    for (const filters of subsets(whole)) {
      const cube = source.peek({ levels: ["gpu", "iteration"], filters });
      if (cube)
        return { ...answer, cube, filters, left: whole.filter((filter) => !filters.includes(filter)) };
    }
    return { ...answer, filters: whole, left: [] };
  };
}

/** Proper subsets, the largest first, among equals those with the last (most telling) filters first. */
export function subsets(filters: readonly Filter[]): Filter[][] {
  const masks = Array.from({ length: 2 ** filters.length - 1 }, (_, mask) => mask);
  const taken = masks.map((mask) => ({ mask, some: filters.filter((_, i) => mask & (1 << i)) }));
  return taken.sort((a, b) => b.some.length - a.some.length || b.mask - a.mask).map(({ some }) => some);
}
