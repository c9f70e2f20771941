/** Words for levels and values. Values are someone else's text: always shown as text. */
import type { Filter, Level, Payload } from "./payload.ts";

type Words = readonly [singular: string, plural: string];

const WORDS: Readonly<Record<Level, Words>> = {
  gpu: ["GPU", "GPUs"],
  iteration: ["iteration", "iterations"],
  phase: ["phase", "phases"],
  layer: ["layer", "layers"],
  op: ["op", "ops"],
  kernel: ["kernel", "kernels"],
};

/** Without a GPU, operators on the CPU stand in for kernels. */
const CPU_WORDS: Readonly<Partial<Record<Level, Words>>> = {
  gpu: ["CPU", "CPUs"],
  kernel: ["CPU operator", "CPU operators"],
};

function words(payload: Payload, level: Level): Words {
  return (payload.device_kind === "cpu" ? CPU_WORDS[level] : undefined) ?? WORDS[level];
}

export function levelWord(payload: Payload, level: Level): string {
  return words(payload, level)[0];
}

export function levelTitle(payload: Payload, level: Level): string {
  return capital(levelWord(payload, level));
}

export function countOf(payload: Payload, level: Level, count: number): string {
  const [singular, plural] = words(payload, level);
  return `${count} ${count === 1 ? singular : plural}`;
}

export function plural(payload: Payload, level: Level): string {
  return words(payload, level)[1];
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Full name of a value. */
export function nameOf(payload: Payload, level: Level, code: number): string {
  if (code < 0) return level === "layer" ? "no layer" : "other";
  const label = payload.dictionaries[level][code]?.label ?? "other";
  return level === "iteration" && /^\d+$/.test(label) ? `iteration ${label}` : label;
}

/** Readable short form of a value, or its name. */
export function shortNameOf(payload: Payload, level: Level, code: number): string {
  return (code < 0 ? undefined : payload.dictionaries[level][code]?.short) ?? nameOf(payload, level, code);
}

/** What is selected, in words. */
export function selectionName(payload: Payload, selection: readonly Filter[]): string {
  if (selection.length === 0) return everything(payload);
  return selection.map(([level, code]) => shortNameOf(payload, level, code)).join(" · ");
}

export function everything(payload: Payload): string {
  const { gpus, iterations } = payload.instances;
  const parts = [gpus > 1 && plural(payload, "gpu"), iterations > 1 && "iterations"].filter(Boolean);
  return parts.length ? `All ${parts.join(" and ")}` : "Whole recording";
}

/** "per iteration and GPU", or what of it applies: a level with one value, or fixed, is not named. */
export function perInstance(payload: Payload, selection: readonly Filter[] = []): string {
  const { gpus, iterations } = payload.instances;
  const open = (level: Level, size: number) => size > 1 && !selection.some(([name]) => name === level);
  const parts = [
    open("iteration", iterations) && "iteration",
    open("gpu", gpus) && levelWord(payload, "gpu"),
  ];
  const words = parts.filter(Boolean);
  return words.length ? `per ${words.join(" and ")}` : "in total";
}

/** Kernels that are drawn as one. */
export function shortKernels({ device_kind }: Payload, count: number): string {
  return `${count} short ${device_kind === "cpu" ? "operators" : "kernels"}`;
}

/** A remark from Python as a sentence of its own. */
export function sentence(text: string | null): string {
  return text === null || text === "" ? "" : `${capital(text)}${text.endsWith(".") ? "" : "."}`;
}
