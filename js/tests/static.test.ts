// @vitest-environment jsdom
import { beforeEach, expect, test, vi } from "vitest";
import { upgrade } from "../src/static.ts";
import { buildPayload, packed } from "./payload.ts";

const STATIC = `<div data-chopper-static="cj123"><details open class="cj-static-table"><summary>top</summary></details></div>`;
const ERROR = "Error displaying widget: model not found";

function jupyter(second: string, third = ""): void {
  const outputs = [STATIC, second, third].map(
    (inner) =>
      `<div class="jp-OutputArea-child"><div>[1]:</div><div class="jp-OutputArea-output">${inner}</div></div>`,
  );
  document.body.innerHTML = `<div class="jp-OutputArea">${outputs.join("")}</div>`;
}

const child = (at: number) =>
  document.querySelectorAll<HTMLElement>(".jp-OutputArea-child")[at] as HTMLElement;
const output = (at: number) => child(at).querySelector(".jp-OutputArea-output") as HTMLElement;

beforeEach(() => document.body.replaceChildren());

test("the explorer stands before the table, which is closed", async () => {
  document.body.innerHTML = STATIC;
  await upgrade("cj123", packed(buildPayload()));
  const host = document.querySelector("[data-chopper-static]");
  expect(host?.firstElementChild?.querySelector(".chopper-explorer")?.getAttribute("data-mode")).toBe(
    "static",
  );
  expect(host?.querySelector("details")?.open).toBe(false);
});

test("the page opens with what was selected when it was made", async () => {
  document.body.innerHTML = STATIC;
  const payload = buildPayload({
    selection: [
      ["phase", "backward"],
      ["gpu", 1],
    ],
    metric: "idle",
    theme: "dark",
  });
  await upgrade("cj123", packed(payload));
  expect(document.querySelector("[data-testid=breadcrumb]")?.textContent).toContain("All/backward/GPU 1");
  expect(document.querySelector(".chopper-explorer")?.getAttribute("data-theme")).toBe("dark");
  expect(document.querySelector("[aria-sort]")?.textContent).toContain("Idle");
});

test("a page without the static part is left alone", async () => {
  document.body.innerHTML = "<p>else</p>";
  await upgrade("cj123", packed(buildPayload()));
  expect(document.body.innerHTML).toBe("<p>else</p>");
});

test("the same output twice on a page: each is upgraded once", async () => {
  document.body.innerHTML = STATIC + STATIC;
  const data = packed(buildPayload());
  await Promise.all([upgrade("cj123", data), upgrade("cj123", data), upgrade("cj123", data)]);
  const hosts = [...document.querySelectorAll("[data-chopper-static]")];
  expect(hosts.map((host) => host.querySelectorAll(".chopper-explorer").length)).toEqual([1, 1]);
});

test("broken data leaves the table open and says why", async () => {
  document.body.innerHTML = STATIC;
  await upgrade("cj123", packed({ version: 99 }));
  const host = document.querySelector("[data-chopper-static]");
  expect(host?.textContent).toContain("version 1, not 99");
  expect(host?.querySelector("details")?.open).toBe(true);
});

test("the dead widget below is hidden, nothing else is", async () => {
  jupyter(ERROR, ERROR);
  await upgrade("cj123", packed(buildPayload()));
  expect([0, 1, 2].map((at) => child(at).style.display)).toEqual(["", "none", ""]);
});

test("it is hidden when it dies later, and shown when it lives", async () => {
  jupyter("Loading widget...");
  await upgrade("cj123", packed(buildPayload()));
  expect(child(1).style.display).toBe("");
  output(1).textContent = ERROR;
  await vi.waitFor(() => expect(child(1).style.display).toBe("none"));
  output(1).textContent = "a live widget";
  await vi.waitFor(() => expect(child(1).style.display).toBe(""));
});

test("an output that only mentions the error stays", async () => {
  jupyter(`The log says: ${ERROR}`);
  await upgrade("cj123", packed(buildPayload()));
  expect(child(1).style.display).toBe("");
});
