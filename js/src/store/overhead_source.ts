/** From theoretical to actual time of the selection, or of the nearest part of it at hand. */
import type { DataSource } from "../bridge/source.ts";
import { overheadRow, type OverheadRow } from "../model/overheads.ts";
import type { Filter, Overheads } from "../model/payload.ts";
import { release } from "../model/selection.ts";
import { subsets } from "./variation_source.ts";

export interface OverheadAnswer {
  readonly row: OverheadRow | null;
  /** What the row is of: the selection, maybe without some of its filters. */
  readonly filters: readonly Filter[];
  readonly pending: boolean;
  readonly failure: string | null;
}

export type OverheadView = (selection: readonly Filter[]) => OverheadAnswer;

/** `onAnswer` is called when a pending question has been answered or has failed. */
export function createOverheads(
  overheads: Overheads,
  source: DataSource,
  onAnswer: () => void,
): OverheadView {
  const known = new Map<string, OverheadRow | null>();
  let asked: { readonly key: string; failure: string | null } | null = null;
  let last: { row: OverheadRow | null; filters: readonly Filter[] } | null = null;

  const ask = (key: string, filters: readonly Filter[]) => {
    const question: { readonly key: string; failure: string | null } = { key, failure: null };
    asked = question;
    source
      .request("overheads", { kind: "overheads", filters })
      .then(({ overheads: table }) => known.set(key, table ? overheadRow(overheads, table, filters) : null))
      .catch((error: unknown) => {
        question.failure = error instanceof Error ? error.message : String(error);
      })
      .finally(onAnswer);
  };

  const atHand = (filters: readonly Filter[]): OverheadRow | null | undefined => {
    const key = keyOf(filters);
    if (known.has(key)) return known.get(key);
    const found = overheads.tables.map((table) => overheadRow(overheads, table, filters)).find(Boolean);
    if (found) known.set(key, found);
    return found;
  };

  return (selection) => {
    // Runs of ops have no kernels: what is below the op is the op's.
    const wanted = release(selection, ["kernel"]);
    const row = atHand(wanted);
    if (row !== undefined) {
      last = { row, filters: wanted };
      return { ...last, pending: false, failure: null };
    }
    const key = keyOf(wanted);
    if (source.live() && asked?.key !== key) ask(key, wanted);
    const pending = source.live() && asked?.failure === null;
    const failure = asked?.key === key ? asked.failure : null;
    if (pending && last) return { ...last, pending, failure };
    for (const filters of subsets(wanted)) {
      const near = atHand(filters);
      if (near) return { row: near, filters, pending, failure };
    }
    return { row: null, filters: wanted, pending, failure };
  };
}

const keyOf = (filters: readonly Filter[]) => JSON.stringify([...filters].sort());
