import { expect, test } from "vitest";
import { answers, queryKey, rollUp, rowCount, smallestCube, sum } from "../../src/model/cube.ts";
import type { Cube, Filter } from "../../src/model/payload.ts";
import { buildPayload, fullCube } from "../payload.ts";

test("rolling up keeps the sums", () => {
  const full = fullCube();
  const byPhase = rollUp(full, { levels: ["phase"], filters: [] });
  expect(rowCount(byPhase)).toBe(3);
  expect(sum(byPhase)).toEqual(sum(full));
});

test("rolling up a roll-up is the same as rolling up at once", () => {
  const query = { levels: ["op"] as const, filters: [["phase", 1]] as const };
  const steps = rollUp(rollUp(fullCube(), { levels: ["phase", "op"], filters: [] }), query);
  expect(steps).toEqual(rollUp(fullCube(), query));
});

test("a filter on null finds the rows without a layer", () => {
  const answer = rollUp(fullCube(), { levels: ["op"], filters: [["layer", -1]] });
  expect(answer.codes).toEqual([[3]]);
  expect(answer.measures["time_ns"]).toEqual([5e6 * 5 + 7.5e6]);
});

test("no levels give one row of totals, also over an empty cube", () => {
  expect(rollUp(fullCube(), { levels: [], filters: [] }).measures["count"]).toEqual([2 * 3 * 25]);
  const none = rollUp(fullCube(), { levels: ["op"], filters: [["phase", 99]] });
  expect(sum(none)["count"]).toBe(0);
});

test("the smallest cube that has all levels answers", () => {
  const { cubes } = buildPayload();
  expect(smallestCube(cubes, { levels: ["phase"], filters: [] }, false)).toBe(cubes[0]);
  expect(smallestCube(cubes, { levels: ["phase"], filters: [["gpu", 0]] }, false)).toBe(cubes[1]);
  expect(smallestCube(cubes, { levels: ["op"], filters: [["gpu", 0]] }, true)).toBeNull();
});

test("a coarse cube answers only for values it still has, and only if exact ones cannot", () => {
  const coarse: Cube = {
    ...rollUp(fullCube(), { levels: ["gpu", "op"], filters: [["op", 0]] }),
    coarse: "Small ops are merged.",
  };
  const about = (...filters: Filter[]) => answers(coarse, { levels: ["gpu"], filters });
  expect(about(["op", 0])).toBe(true);
  expect(about(["op", 1])).toBe(false);
  expect(about(["op", -1])).toBe(false); // no row without an op
  const { cubes } = buildPayload();
  expect(smallestCube([coarse, ...cubes], { levels: ["gpu"], filters: [] }, true)).toBe(cubes[1]);
  expect(smallestCube([coarse], { levels: ["gpu"], filters: [] }, false)).toBeNull();
});

test("sums over levels that are never merged are exact, from a coarse cube too", () => {
  const coarse: Cube = { ...rollUp(fullCube(), { levels: ["gpu", "op"], filters: [] }), coarse: "merged" };
  expect(rollUp(coarse, { levels: ["gpu"], filters: [["op", 0]] }).coarse).toBeNull();
  expect(rollUp(coarse, { levels: ["op"], filters: [] }).coarse).toBe("merged");
});

test("the order of filters does not make another question", () => {
  const key = (filters: Filter[]) => queryKey({ levels: ["op"], filters });
  expect(
    key([
      ["gpu", 1],
      ["phase", 0],
    ]),
  ).toBe(
    key([
      ["phase", 0],
      ["gpu", 1],
    ]),
  );
  expect(key([["gpu", 1]])).not.toBe(key([["gpu", 2]]));
});
