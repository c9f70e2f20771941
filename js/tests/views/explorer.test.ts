// @vitest-environment jsdom
import { expect, test, vi } from "vitest";
import type { Payload } from "../../src/model/payload.ts";
import { buildPayload } from "../payload.ts";
import {
  all,
  chip,
  click,
  crumb,
  explorer,
  find,
  labels,
  mount,
  node,
  press,
  selection,
  useFreshPage,
} from "./mounted.ts";

useFreshPage();

test("the root says what it is and has no error", () => {
  mount();
  expect(explorer.root.className).toBe("chopper-explorer");
  expect(explorer.root.dataset["mode"]).toBe("static");
  expect(find("[data-testid=error]").hidden).toBe(true);
  expect(crumb()).toContain("kernel time per iteration and GPU, 100\u202f% of the run");
});

test("a click zooms in, the top bar and Escape go up", () => {
  mount();
  click(node("backward"));
  expect(selection()).toEqual([["phase", 1]]);
  expect(crumb()).toContain("backward");
  click(node("mlp.gate"));
  expect(selection()).toEqual([
    ["phase", 1],
    ["op", 0],
  ]);
  click(node("backward · mlp.gate"));
  expect(selection()).toEqual([["phase", 1]]);
  find("[data-testid=icicle] [tabindex='0']").focus();
  press("Escape");
  expect(selection()).toEqual([]);
});

test("the keyboard alone drills down and up again", () => {
  mount();
  node("All GPUs and iterations").focus();
  press("ArrowDown");
  expect(document.activeElement?.getAttribute("data-label")).toBe("forward");
  press("ArrowRight");
  press("Enter");
  expect(selection()).toEqual([["phase", 1]]);
  expect(document.activeElement?.getAttribute("data-label")).toBe("backward");
  press("ArrowDown");
  press("Enter");
  expect(selection()).toEqual([
    ["phase", 1],
    ["op", 0],
  ]);
  press("Backspace");
  press("Backspace");
  expect(selection()).toEqual([]);
  expect(find("[data-testid=announcement]").textContent).toBe("All GPUs and iterations");
});

test("plain keys stay inside, Ctrl and Cmd pass", () => {
  mount();
  const outside = vi.fn();
  document.addEventListener("keydown", outside);
  node("forward").focus();
  for (const key of ["b", "ArrowRight", "Enter", "Escape", "x"]) press(key);
  press("Enter", { shiftKey: true });
  expect(outside).not.toHaveBeenCalled();
  press("s", { ctrlKey: true });
  press("c", { metaKey: true });
  expect(outside).toHaveBeenCalledTimes(2);
  document.removeEventListener("keydown", outside);
});

test("levels are reordered by key; what is not embedded says what it needs", () => {
  mount();
  expect(find(".cj-note").textContent).toBe("GPU and iteration here need a running Jupyter kernel");
  chip("gpu").focus();
  for (let i = 0; i < 4; i++) press("ArrowLeft");
  expect(explorer.store.get().synced.order[0]).toBe("gpu");
  expect(document.activeElement).toBe(chip("gpu"));
  expect(labels("[data-testid=table-row][data-depth='0']")).toEqual(["GPU 0", "GPU 1"]);
  expect(chip("op").getAttribute("aria-disabled")).toBe("true");
});

test("a fixed level is marked and released by its chip", () => {
  mount();
  click(node("forward"));
  const chip = find("[data-testid=level-chip][data-level=phase]");
  expect(chip.classList.contains("set")).toBe(true);
  click(chip);
  expect(selection()).toEqual([]);
});

test("the quality chip opens its lines", () => {
  mount();
  const lines = find("[data-testid=quality-lines]");
  expect(lines.hidden).toBe(true);
  click(find("[data-testid=quality]"));
  expect(lines.hidden).toBe(false);
  expect(lines.textContent).toBe("12 events readnone skipped");
});

test("names from a trace are text, wherever they stand", () => {
  const evil = '<img src=x onerror="window.hacked=1">';
  const { dictionaries } = buildPayload();
  const op = [{ label: evil }, ...dictionaries.op.slice(1)];
  const kernel = [{ label: `${evil}2`, short: evil, family: "gemm" }, ...dictionaries.kernel.slice(1)];
  mount({
    title: evil,
    dictionaries: { ...dictionaries, op, kernel },
    quality: { phrase: evil, good: false, lines: [evil] },
  });
  click(all("[data-testid=icicle-node][data-level=op]")[0] as Element);
  click(all("[data-testid=icicle-node][data-level=kernel]")[0] as Element);
  expect(crumb()).toContain(evil);
  expect(explorer.root.querySelector("img")).toBeNull();
});

test("on a CPU the words and metrics of GPUs are gone", () => {
  mount({ device_kind: "cpu" });
  expect(find("[data-testid=level-chip][data-level=kernel]").textContent).toBe("CPU operator");
  expect(all("th [data-sort]").map((button) => button.dataset["sort"])).not.toContain("overlap");
  expect(find("[data-sort=kernels]").textContent).toBe("CPU operators");
  expect(crumb()).toContain("operator time");
});

test("an error in a view is shown and not thrown", () => {
  const log = vi.spyOn(console, "error").mockImplementation(() => undefined);
  mount({ facts: null as unknown as Payload["facts"] });
  expect(find("[data-testid=error]").hidden).toBe(false);
  expect(find("[data-testid=error]").textContent).toContain("This view failed");
  log.mockRestore();
});

test("the page's theme is followed, a theme that was asked for wins", () => {
  document.body.setAttribute("data-jp-theme-light", "false");
  mount();
  expect(explorer.root.dataset["theme"]).toBe("dark");
  explorer.store.setSynced({ theme: "light" });
  expect(explorer.root.dataset["theme"]).toBe("light");
  expect(explorer.root.hasAttribute("data-own-colours")).toBe(true);
  document.body.removeAttribute("data-jp-theme-light");
});
