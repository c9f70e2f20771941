/** The selection as a list of fixed levels, and its translation from and to labels. */
import { isLevel, type Filter, type LabelledFilter, type Level, type Payload } from "./payload.ts";

export function codeOf(selection: readonly Filter[], level: Level): number | undefined {
  return selection.find(([name]) => name === level)?.[1];
}

/** Fix levels, replacing what was fixed on the same levels before. */
export function fix(selection: readonly Filter[], added: readonly Filter[]): Filter[] {
  const levels = added.map(([level]) => level);
  return [...selection.filter(([level]) => !levels.includes(level)), ...added];
}

export function release(selection: readonly Filter[], levels: readonly Level[]): Filter[] {
  return selection.filter(([level]) => !levels.includes(level));
}

export function sameSelection(a: readonly Filter[], b: readonly Filter[]): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

export function toLabels(payload: Payload, selection: readonly Filter[]): LabelledFilter[] {
  return selection.map(([level, code]) => [level, labelOf(payload, level, code)]);
}

function labelOf(payload: Payload, level: Level, code: number): string | number | null {
  const entry = code < 0 ? undefined : payload.dictionaries[level][code];
  return entry?.value ?? entry?.label ?? null;
}

/** Codes for labels; what this recording does not hold is left out. */
export function fromLabels(payload: Payload, labels: readonly LabelledFilter[]): Filter[] {
  const found: Filter[] = [];
  for (const [level, label] of labels) {
    if (!isLevel(level)) continue;
    const code = label === null ? -1 : findCode(payload, level, label);
    if (code !== null) found.push([level, code]);
  }
  return fix([], found);
}

function findCode(payload: Payload, level: Level, label: string | number): number | null {
  const code = payload.dictionaries[level].findIndex(
    (entry) => entry.label === label || entry.value === label,
  );
  return code < 0 ? null : code;
}

/** A complete order: what was given, checked, then whatever it left out. */
export function completeOrder(payload: Payload, order: readonly string[]): Level[] {
  return [...new Set([...order, ...payload.order].filter(isLevel))];
}

/** Move a level to another place in the order. */
export function moved(order: readonly Level[], level: Level, to: number): Level[] {
  const others = order.filter((name) => name !== level);
  const at = Math.max(0, Math.min(others.length, to));
  return [...others.slice(0, at), level, ...others.slice(at)];
}
