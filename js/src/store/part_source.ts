/** Parts of the wall time of the selection, or of the nearest part of it that is at hand. */
import type { DataSource } from "../bridge/source.ts";
import { sum, type Sums } from "../model/cube.ts";
import type { Filter } from "../model/payload.ts";
import type { Questions } from "./questions.ts";
import { subsets } from "./variation_source.ts";

export interface PartAnswer {
  readonly sums: Sums | null;
  /** What the sums are of: the selection, maybe without some of its filters. */
  readonly filters: readonly Filter[];
  readonly pending: boolean;
  readonly failure: string | null;
}

export type PartView = (selection: readonly Filter[]) => PartAnswer;

export function createParts(source: DataSource, questions: Questions): PartView {
  let last: { sums: Sums; filters: readonly Filter[] } | null = null;
  return (selection) => {
    const query = (filters: readonly Filter[]) => ({ levels: [], filters, of: "parts" }) as const;
    const { cube, pending, failure } = questions.answer("parts", query(selection));
    if (cube) {
      last = { sums: sum(cube), filters: selection };
      return { ...last, pending, failure };
    }
    if (pending && last) return { ...last, pending, failure };
    for (const filters of subsets(selection)) {
      const near = source.peek(query(filters));
      if (near) return { sums: sum(near), filters, pending, failure };
    }
    return { sums: null, filters: selection, pending, failure };
  };
}
