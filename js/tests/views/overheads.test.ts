// @vitest-environment jsdom
import { expect, test } from "vitest";
import { OVERHEADS } from "../overheads.ts";
import { all, click, find, mount, node, useFreshPage } from "./mounted.ts";

useFreshPage();

const value = (part: string) => find(`[data-overhead=${part}] .num`).textContent;

test("the way from theoretical to actual time follows the selection", () => {
  mount({ overheads: OVERHEADS });
  expect(value("theoretical")).toBe("50.0");
  expect(find("[data-overhead=instruction]").textContent).toBe("Instruction60.01.00");
  expect(value("unexplained")).toBe("\u221210.0");
  expect(value("actual")).toBe("100");
  click(node("backward"));
  expect(value("actual")).toBe("200");
});

test("what is not known says so, and why; what does not apply is left out", () => {
  mount({ overheads: OVERHEADS });
  expect(find("[data-overhead=overlap]").textContent).toBe("Overlapnot identifiable");
  expect(find("[data-testid=overheads-note]").textContent).toContain(
    "Overlap not identifiable: too few instances.",
  );
  expect(all("[data-overhead=waiting]")).toEqual([]);
  expect(all("[data-overhead=not_modelled]")).toEqual([]);
});

test("without Python the nearest part that is at hand is shown and named", () => {
  mount({ overheads: OVERHEADS });
  click(node("forward"));
  expect(value("actual")).toBe("100");
  expect(find("[data-testid=overheads-note]").textContent).toContain(
    "Forward needs a running Jupyter kernel.",
  );
});

test("there is no such panel where no counters were recorded", () => {
  mount();
  expect(all("[data-testid=overheads]")).toEqual([]);
});
