/** Numbers as text: three significant digits, narrow spaces, true minus, en dash for missing. */

export const NARROW_SPACE = "\u202f";
export const MISSING = "\u2013";
const MINUS = "\u2212";

/** Nanoseconds in one of each unit, largest first. */
const TIME_UNITS: readonly (readonly [unit: string, ns: number])[] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];

/** A number with the given significant digits; at 1 000 and above whole, grouped by thousands. */
export function significant(value: number, digits = 3): string {
  if (!Number.isFinite(value)) return MISSING;
  if (value === 0) return "0";
  const size = Math.abs(value);
  const decimals = Math.min(6, Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
  // Rounding may carry into the next power of ten (99.96 is 100, not 100.0).
  const rounded = Number(size.toFixed(decimals));
  const left = Math.min(6, Math.max(0, digits - 1 - Math.floor(Math.log10(rounded || 1))));
  return (value < 0 ? MINUS : "") + group(size.toFixed(rounded ? Math.min(decimals, left) : decimals));
}

export function count(value: number): string {
  if (value > 0 && value < 0.05) return "<0.1"; // something is there
  const whole = Math.round(value);
  if (Math.abs(value - whole) >= 0.05) return significant(value);
  return (whole < 0 ? MINUS : "") + group(String(Math.abs(whole)));
}

function group(digits: string): string {
  const [whole = "", fraction] = digits.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, NARROW_SPACE);
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** A time in the unit that suits its size. */
export function time(ns: number): string {
  if (!Number.isFinite(ns)) return MISSING;
  const unit = timeUnitFor(Math.abs(ns));
  return withUnit(significant(ns / nsPer(unit)), unit);
}

/** The largest unit in which the value is at least 1 (after rounding to three digits). */
export function timeUnitFor(ns: number): string {
  if (ns === 0) return "ms";
  return (TIME_UNITS.find(([, size]) => ns >= 0.9995 * size) ?? (["ns", 1] as const))[0];
}

export function isTimeUnit(unit: string): boolean {
  return TIME_UNITS.some(([name]) => name === unit);
}

export function nsPer(unit: string): number {
  return TIME_UNITS.find(([name]) => name === unit)?.[1] ?? 1;
}

/** A percentage with one decimal; the argument is already times 100. */
export function percent(value: number): string {
  return withUnit(percentDigits(value), "%");
}

export function percentDigits(value: number): string {
  if (!Number.isFinite(value)) return MISSING;
  if (Math.abs(value) >= 99.95) return significant(Math.round(value));
  if (value > 0 && value < 0.05) return "<0.1"; // something is there
  return (value < 0 ? MINUS : "") + Math.abs(value).toFixed(1);
}

/** A change against something, from its ratio: always signed, zero unsigned. */
export function change(ratio: number): string {
  if (!Number.isFinite(ratio)) return MISSING;
  const size = Math.abs(ratio * 100);
  const sign = size < 0.05 ? "" : ratio < 0 ? MINUS : "+";
  return withUnit(sign + (size >= 100 ? significant(Math.round(size)) : size.toFixed(1)), "%");
}

export function withUnit(text: string, unit: string): string {
  return unit === "" || text === MISSING ? text : text + NARROW_SPACE + unit;
}

/** A metric's value as text with its unit. */
export function metricText(value: number | null, unit: string): string {
  if (value === null || !Number.isFinite(value)) return MISSING;
  if (unit === "%") return percent(value);
  if (isTimeUnit(unit)) return time(value * nsPer(unit));
  if (unit === "") return count(value);
  return withUnit(significant(value), unit);
}

/** A value as text, always signed if it is a difference. */
export function signed(text: string, value: number | null, difference: boolean): string {
  return difference && value !== null && value > 0 && !/^0(\.0+)?(\u202f|$)/.test(text) ? `+${text}` : text;
}

export interface ColumnFormat {
  readonly unit: string;
  cell(value: number | null): string;
}

/** One unit for a whole column, chosen by its largest value. */
export function columnFormat(unit: string, values: readonly (number | null)[]): ColumnFormat {
  const digits = (text: (value: number) => string) => (value: number | null) =>
    value === null || !Number.isFinite(value) ? MISSING : text(value);
  if (unit === "%") return { unit, cell: digits(percentDigits) };
  if (unit === "") return { unit, cell: digits(count) };
  if (!isTimeUnit(unit)) return { unit, cell: digits((value) => significant(value)) };
  const largest = values.reduce<number>((most, value) => Math.max(most, Math.abs(value ?? 0)), 0);
  const chosen = timeUnitFor(largest * nsPer(unit));
  const scale = nsPer(unit) / nsPer(chosen);
  return { unit: chosen, cell: digits((value) => significant(value * scale)) };
}
