import { expect, test } from "vitest";
import { contrast, diverging, familyColour, inkOn, sequential } from "../../src/model/colour.ts";
import { toCsv } from "../../src/model/csv.ts";
import { fitPath, fitText } from "../../src/model/fit.ts";
import { buildPayload } from "../payload.ts";

const tenEach = (text: string) => 10 * text.length;

test("names keep their start, kernels their end, and tell something or nothing", () => {
  expect(fitText("optimizer", 90, tenEach, "start")).toBe("optimizer");
  expect(fitText("optimizer", 60, tenEach, "start")).toBe("optim\u2026");
  expect(fitText("gemm_256x128", 60, tenEach, "end")).toBe("\u20266x128");
  expect(fitText("optimizer", 30, tenEach, "start")).toBe("");
});

test("paths lose their prefix first", () => {
  expect(fitPath("self_attn.q_proj", 100, tenEach)).toBe("q_proj");
  expect(fitPath("aten::linear", 70, tenEach)).toBe("linear");
  expect(fitPath("model.layers.0.mlp", 60, tenEach)).toBe("0.mlp");
  expect(fitPath("down_projection", 60, tenEach)).toBe("down_\u2026");
});

test("fields are quoted where they must be", () => {
  expect(
    toCsv(
      ["op", "time"],
      [
        ['a,"b"', 1.5],
        ["c", null],
      ],
    ),
  ).toBe('op,time\r\n"a,""b""",1.5\r\nc,\r\n');
});

test.each(["light", "dark"] as const)(
  "labels and marks can be read on every fill of the %s theme",
  (theme) => {
    const families = ["gemm", "attention", "norm", "elementwise", "communication", "copy", "optimizer"];
    const steps = Array.from({ length: 21 }, (_, i) => i / 20);
    const readable = (fill: string) => contrast(fill, inkOn(fill));
    for (const family of families) expect(readable(familyColour(theme, family)), family).toBeGreaterThan(4.5);
    for (const at of steps) {
      expect(readable(sequential(theme, at)), `sequential ${at}`).toBeGreaterThan(4.2);
      expect(readable(diverging(theme, at)), `diverging ${at}`).toBeGreaterThan(3); // dots only, no text
    }
  },
);

test("an unknown family has a colour too", () => {
  expect(familyColour("light", "somebody's")).toBe(familyColour("light", "copy"));
  expect(buildPayload().families.map(({ name }) => familyColour("dark", name))).toHaveLength(4);
});
