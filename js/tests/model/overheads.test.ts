import { expect, test } from "vitest";
import { overheadLines, overheadRow } from "../../src/model/overheads.ts";
import { BACKWARD, OVERHEADS, WHOLE } from "../overheads.ts";

test("a row is found by its selection and lacks what does not apply", () => {
  expect(overheadRow(OVERHEADS, WHOLE, [["phase", 1]])).toBeNull();
  expect(overheadRow(OVERHEADS, BACKWARD, [["phase", 0]])).toBeNull();
  expect(overheadRow(OVERHEADS, BACKWARD, [["phase", 1]])?.actual).toBe(1200e6);
  const names = overheadRow(OVERHEADS, WHOLE, [])?.parts.map(({ part }) => part.name);
  expect(names).toEqual(["theoretical", "instruction", "overlap", "unexplained", "not_modelled"]);
});

test("levels of a table may be in another order than the selection", () => {
  const table = { ...WHOLE, levels: ["gpu", "phase"] as const, codes: [[3], [1]] };
  const found = overheadRow(OVERHEADS, table, [
    ["phase", 1],
    ["gpu", 3],
  ]);
  expect(found?.actual).toBe(600e6);
});

test("parts follow each other, a negative one goes back, and all add up to the actual time", () => {
  const row = overheadRow(OVERHEADS, WHOLE, []);
  if (!row) throw new Error("no row");
  const lines = overheadLines(row, 6);
  expect(lines.map(({ name, ns, from }) => [name, ns, from])).toEqual([
    ["theoretical", 50e6, 0],
    ["instruction", 60e6, 50e6],
    ["overlap", null, 110e6],
    ["unexplained", -10e6, 110e6],
    ["actual", 100e6, 0],
  ]);
  expect(lines[1]?.half).toBe(1e6);
  expect(lines[2]?.reason).toContain("too few");
});
