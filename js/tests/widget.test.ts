// @vitest-environment jsdom
import { beforeEach, expect, test, vi } from "vitest";
import { rollUp } from "../src/model/cube.ts";
import type { CubeQuestion } from "../src/protocol.ts";
import widget from "../src/widget.ts";
import { fakeModel, type FakeModel } from "./model_double.ts";
import { buildPayload, fullCube, packed } from "./payload.ts";

type AskedCube = CubeQuestion & { readonly id: number };

vi.stubGlobal("CSS", { escape: (text: string) => text }); // jsdom has none

async function render(model: FakeModel): Promise<{ host: HTMLElement; stop: () => void }> {
  const host = document.createElement("div");
  document.body.append(host);
  const stop = await widget.render({ model, el: host } as unknown as Parameters<typeof widget.render>[0]);
  return { host, stop: stop as () => void };
}

beforeEach(() => document.body.replaceChildren());

test("the live explorer hides the static part of its uid, and shows it again when it goes", async () => {
  document.body.innerHTML = '<div data-chopper-static="cj123"></div><div data-chopper-static="other"></div>';
  const [mine, other] = [...document.querySelectorAll("[data-chopper-static]")] as [Element, Element];
  const { host, stop } = await render(fakeModel({ payload: packed(buildPayload()) }));
  expect(host.querySelector(".chopper-explorer")?.getAttribute("data-mode")).toBe("live");
  expect([mine, other].map((part) => getComputedStyle(part).display)).toEqual(["none", "block"]);
  stop();
  expect(getComputedStyle(mine).display).toBe("block");
  expect(host.childElementCount).toBe(0);
});

test("cleaning up leaves no listener on the model", async () => {
  const model = fakeModel({ payload: packed(buildPayload()) });
  const { stop } = await render(model);
  expect(model.listeners()).toBeGreaterThan(0);
  stop();
  expect(model.listeners()).toBe(0);
});

test("a question goes to Python and its answer is drawn", async () => {
  const model = fakeModel({ payload: packed(buildPayload()), level_order: ["gpu", "op"] });
  const { host } = await render(model);
  const status = () => [...host.querySelectorAll("[data-testid=status]")].map((each) => each.textContent);
  expect(status()).toContain("Computing");
  const query = model.sent.find((message) => (message as AskedCube).levels.includes("op")) as AskedCube;
  model.emit("msg:custom", { kind: "answer", id: query.id, cube: rollUp(fullCube(), query) }, []);
  await vi.waitFor(() => expect(status()).not.toContain("Computing"));
  expect(host.querySelector('[data-testid=icicle-node][data-label="mlp.gate"]')).not.toBeNull();
});

test("what Python could not do is said in the panel", async () => {
  const model = fakeModel({ payload: packed(buildPayload()), level_order: ["gpu", "op"] });
  const { host } = await render(model);
  const query = model.sent[0] as AskedCube;
  model.emit("msg:custom", { kind: "failure", id: query.id, message: "the trace was closed" }, []);
  await vi.waitFor(() => expect(host.textContent).toContain("the trace was closed"));
});

test("a new payload starts a new explorer", async () => {
  const model = fakeModel({ payload: packed(buildPayload()) });
  const { host } = await render(model);
  model.set("payload", packed(buildPayload({ title: "second" })));
  await vi.waitFor(() => expect(host.querySelector(".cj-title")?.textContent).toBe("second"));
  expect(host.querySelectorAll(".chopper-explorer")).toHaveLength(1);
});

test("data that cannot be read is said, not thrown", async () => {
  const { host } = await render(fakeModel({ payload: "bm9ndA==" }));
  expect(host.textContent).toContain("The explorer did not start");
});
