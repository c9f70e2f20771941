import { expect, test } from "vitest";
import { inflate } from "../../src/bridge/inflate.ts";
import { createMemory, embeddedSource } from "../../src/bridge/source.ts";
import { rollUp } from "../../src/model/cube.ts";
import type { Cube } from "../../src/model/payload.ts";
import { buildPayload, fullCube, packed } from "../payload.ts";

test("packed data is read back", async () => {
  const payload = buildPayload({ title: "größer" });
  await expect(inflate(packed(payload))).resolves.toEqual(payload);
  await expect(inflate("bm9ndA==")).rejects.toThrow();
});

test("a static page answers from its cubes, coarse ones too, and from nothing else", async () => {
  const gpuOp = { levels: ["gpu", "op"] as const, filters: [] };
  const coarse: Cube = { ...rollUp(fullCube(), gpuOp), coarse: "Small ops are merged." };
  const exact = embeddedSource(buildPayload());
  expect(exact.live()).toBe(false);
  expect(exact.peek(gpuOp)).toBeNull();
  await expect(exact.ask("view", gpuOp)).rejects.toThrow("needs a running Jupyter kernel");
  const { cubes } = buildPayload();
  const rough = embeddedSource(buildPayload({ cubes: [...cubes, coarse] }));
  expect(rough.peek(gpuOp)?.coarse).toBe("Small ops are merged.");
});

test("the memory forgets what was used longest ago", () => {
  const memory = createMemory(2);
  const cube = fullCube();
  const about = (code: number) => ({ levels: [], filters: [["op", code]] as const });
  memory.set(about(1), cube);
  memory.set(about(2), cube);
  expect(memory.get(about(1))).toBe(cube);
  memory.set(about(3), cube);
  expect(memory.get(about(2))).toBeUndefined();
  expect(memory.get(about(1))).toBe(cube);
});
