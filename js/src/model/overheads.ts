/** From theoretical to actual time: one part after another, each with its interval. */
import type { Filter, OverheadPart, Overheads, OverheadTable } from "./payload.ts";

/** All parts of one selection. */
export interface OverheadRow {
  readonly actual: number;
  readonly parts: readonly {
    readonly part: OverheadPart;
    readonly ns: number | null;
    /** Half of its interval; null where it has none. */
    readonly half: number | null;
    /** Why it is not known; null if it is. */
    readonly reason: string | null;
  }[];
}

export interface OverheadLine {
  readonly name: string;
  readonly title: string;
  readonly meaning: string;
  /** Null where not known. */
  readonly ns: number | null;
  readonly half: number | null;
  /** Where its bar starts; a negative part goes back from there. */
  readonly from: number;
  readonly reason: string | null;
}

const NOT_APPLICABLE = -2;

/** The row of a selection in a table of just its levels; null if it is not there. */
export function overheadRow(
  { parts, reasons }: Overheads,
  table: OverheadTable,
  selection: readonly Filter[],
): OverheadRow | null {
  if (table.levels.length !== selection.length) return null;
  const columns = selection.map(([level]) => table.codes[table.levels.indexOf(level)]);
  const at = table.actual.findIndex((_, row) => selection.every(([, code], i) => columns[i]?.[row] === code));
  if (at < 0) return null;
  const told = parts.map((part) => {
    const why = table.why[part.name]?.[at] ?? NOT_APPLICABLE;
    const ns = table.ns[part.name]?.[at] ?? null;
    return { part, why, ns, half: table.half[part.name]?.[at] ?? null, reason: reasons[why] ?? null };
  });
  return {
    actual: table.actual[at] ?? 0,
    parts: told.filter(({ why }) => why !== NOT_APPLICABLE),
  };
}

/** The least share of the actual time at which a part that may be nothing is worth a line. */
const LEAST_SHARE = 0.0005;

/** The parts in their order, then what they add up to; times per instance. */
export function overheadLines({ actual, parts }: OverheadRow, each: number): OverheadLine[] {
  const lines: OverheadLine[] = [];
  let at = 0;
  for (const { part, ns, half, reason } of parts) {
    if (part.name === "not_modelled" && Math.abs(ns ?? 0) < LEAST_SHARE * actual) continue;
    const value = ns === null ? null : ns / each;
    lines.push({ ...part, ns: value, half: half === null ? null : half / each, from: at, reason });
    at += value ?? 0;
  }
  const meaning = "kernel time, summed over kernels";
  lines.push({
    name: "actual",
    title: "Actual",
    meaning,
    ns: actual / each,
    half: null,
    from: 0,
    reason: null,
  });
  return lines;
}
