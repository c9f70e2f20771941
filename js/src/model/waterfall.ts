/** Lines of the breakdown: parts that follow each other, with sums between them. */
import type { Sums } from "./cube.ts";
import type { Part } from "./payload.ts";

export interface Line {
  readonly name: string;
  readonly title: string;
  readonly ns: number;
  /** Where its bar starts. */
  readonly from: number;
  readonly kind: "busy" | "idle" | "total";
}

/** Busy parts and their sum, idle parts and theirs, and the wall time that all add up to. */
export function waterfallOf(parts: readonly Part[], sums: Sums, each: number): Line[] {
  const lines: Line[] = [];
  let at = 0;
  const add = ({ name, title, idle }: Part, ns: number) => {
    lines.push({ name, title, ns, from: at, kind: idle ? "idle" : "busy" });
    at += ns;
  };
  const total = (name: string, title: string, ns: number, from: number) =>
    lines.push({ name, title, ns, from, kind: "total" });
  const timed = parts.map((part) => ({ part, ns: (sums[part.name] ?? 0) / each }));
  for (const { part, ns } of timed.filter(({ part }) => !part.idle))
    if (ns > 0 || part.name === "compute") add(part, ns);
  const busy = at;
  total("busy", "Busy", busy, 0);
  const idle = timed.filter(({ part, ns }) => part.idle && ns > 0);
  const [single] = idle;
  if (idle.length === 1 && single) {
    const title = single.part.name === "idle" ? "Idle" : `Idle: ${single.part.title}`;
    add({ ...single.part, title }, single.ns);
  } else {
    for (const { part, ns } of idle) add(part, ns);
    total("idle", "Idle", at - busy, busy);
  }
  total("wall", "Wall", at, 0);
  return lines;
}
