// @vitest-environment jsdom
import { expect, test } from "vitest";
import { buildPayload } from "../payload.ts";
import { all, click, crumb, find, mount, node, press, selection, useFreshPage } from "./mounted.ts";

useFreshPage();

test("the heat map marks the slow cell and selects GPU and iteration", () => {
  mount();
  const slow = find("[data-testid=heatmap] [data-gpu='1'][data-iteration='4']");
  expect(slow.getAttribute("aria-label")).toBe("GPU 1, iteration 4, 188\u202fms, +50.0\u202f%, outlier");
  click(slow);
  expect(selection()).toEqual([
    ["gpu", 1],
    ["iteration", 2],
  ]);
  click(find("[data-testid=heatmap] [data-gpu='1'][data-iteration='4']"));
  expect(selection()).toEqual([]);
});

test("heat map cells are reached by arrow keys within their row", () => {
  mount();
  find("[data-testid=heatmap] [tabindex='0']").focus();
  press("ArrowLeft");
  press("ArrowUp");
  expect(document.activeElement?.getAttribute("data-iteration")).toBe("2");
  press("ArrowRight");
  press("ArrowDown");
  press("Enter");
  expect(selection()).toEqual([
    ["gpu", 1],
    ["iteration", 1],
  ]);
});

test("what the heat map cannot show without Python it says, and shows what it can", () => {
  mount();
  click(node("forward"));
  click(node("mlp.gate"));
  expect(find("[data-testid=heatmap-note]").textContent).toBe(
    "Forward · mlp.gate alone needs a running Jupyter kernel.",
  );
  const cell = find("[data-testid=heatmap] [data-gpu='0']");
  expect(cell.getAttribute("aria-disabled")).toBe("true");
  click(cell);
  expect(selection()).toEqual([
    ["phase", 0],
    ["op", 0],
  ]);
});

test("the breakdown adds up to the wall time", () => {
  mount();
  const value = (part: string) =>
    Number(find(`[data-testid=breakdown] [data-part=${part}] .num`).textContent);
  // Three significant digits each.
  expect(Math.abs(value("compute") + value("memory") - value("busy"))).toBeLessThan(1);
  expect(Math.abs(value("busy") + value("idle") - value("wall"))).toBeLessThan(1);
  expect(all("[data-part=exposed_communication]")).toEqual([]);
});

test("one GPU is one row and says so", () => {
  const { dictionaries } = buildPayload();
  mount({
    dictionaries: { ...dictionaries, gpu: [{ label: "GPU 0" }] },
    instances: { gpus: 1, iterations: 3 },
  });
  expect(find("[data-testid=heatmap-note]").textContent).toBe("One GPU recorded.");
  expect(crumb()).toContain("per iteration, 100");
  const cell = () => find("[data-testid=heatmap] [data-iteration='3']");
  click(cell());
  expect(selection()).toEqual([["iteration", 1]]);
  expect(cell().getAttribute("aria-selected")).toBe("true");
  expect(all("[data-testid=heatmap] [aria-selected]").length).toBe(1);
});

test("one GPU in one iteration varies from nothing, and that is said", () => {
  const { dictionaries } = buildPayload();
  mount({
    dictionaries: { ...dictionaries, gpu: [{ label: "GPU 0" }], iteration: [] },
    instances: { gpus: 1, iterations: 1 },
  });
  expect(all("[data-testid=heatmap] [data-gpu]")).toEqual([]);
  expect(find("[data-testid=heatmap-note]").textContent).toContain("this has one of each");
});
