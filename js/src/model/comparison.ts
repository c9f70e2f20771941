/** The other trace's time of a part, matched by phase, layer and op. */
import { rollUp, smallestCube } from "./cube.ts";
import type { Filter, Payload } from "./payload.ts";

const MATCHED = ["phase", "layer", "op"];

export type OtherTime = (filters: readonly Filter[]) => number | null;

/** Time per iteration and GPU; null where the part has no match, or cannot have one. */
export function otherTime({ compare }: Payload): OtherTime {
  const known = new Map<string, number | null>();
  return (filters) => {
    if (!compare || !filters.every(([level]) => MATCHED.includes(level))) return null;
    const key = JSON.stringify([...filters].sort());
    const before = known.get(key);
    if (before !== undefined) return before;
    const query = { levels: [], filters };
    const cube = smallestCube(compare.cubes, query, true);
    const sum = cube ? (rollUp(cube, query).measures["time_ns"]?.[0] ?? null) : null;
    const { gpus, iterations } = compare.instances;
    const found = sum === null ? null : sum / Math.max(1, gpus * iterations);
    known.set(key, found);
    return found;
  };
}
