import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createStore, firstState } from "../../src/store/state.ts";
import { syncedFrom, syncState, type Traits } from "../../src/store/traits.ts";
import { buildPayload } from "../payload.ts";
import { fakeModel } from "../model_double.ts";

const payload = buildPayload();

function start(traits: Partial<Traits> = {}) {
  const model = fakeModel(traits);
  const store = createStore(firstState(payload, syncedFrom(payload, model)));
  const stop = syncState(payload, model, store);
  return { model, store, stop };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("the view starts with what Python set", () => {
  const { store } = start({
    selection: [["phase", "backward"]],
    level_order: ["gpu"],
    metric: "idle",
    theme: "dark",
  });
  const { selection, order, metric, theme } = store.get().synced;
  expect({ selection, first: order[0], metric, theme }).toEqual({
    selection: [["phase", 1]],
    first: "gpu",
    metric: "idle",
    theme: "dark",
  });
});

test("a metric that does not exist is the default", () => {
  expect(start({ metric: "beauty" }).store.get().synced.metric).toBe("time");
});

test("selections go to Python as labels, many at once in one message", () => {
  const { model, store } = start();
  store.setSynced({ selection: [["phase", 1]] });
  store.setSynced({
    selection: [
      ["phase", 1],
      ["gpu", 1],
    ],
  });
  expect(model.get("selection")).toEqual([
    ["phase", "backward"],
    ["gpu", 1],
  ]);
  expect(model.saved).toBe(0);
  vi.runAllTimers();
  expect(model.saved).toBe(1);
});

test("what only the view knows does not go to Python", () => {
  const { model, store } = start();
  store.setLocal({ search: "gemm" });
  vi.runAllTimers();
  expect(model.saved).toBe(0);
});

test("a selection from Python arrives and does not come back as news", () => {
  const { model, store } = start();
  model.set("selection", [
    ["op", "fsdp_copy"],
    ["iteration", 3],
  ]);
  expect(store.get().synced.selection).toEqual([
    ["op", 2],
    ["iteration", 1],
  ]);
  vi.runAllTimers();
  expect(model.saved).toBe(0);
});

test("a metric from Python sorts the table", () => {
  const { model, store } = start();
  model.set("metric", "idle");
  expect(store.get().local.sort).toEqual({ column: "idle", descending: true });
});

test("ending sends what was not sent, and listens no more", () => {
  const { model, store, stop } = start();
  store.setSynced({ selection: [["phase", 0]] });
  stop();
  expect(model.saved).toBe(1);
  expect(model.listeners()).toBe(0);
  store.setSynced({ selection: [] });
  expect(model.get("selection")).toEqual([["phase", "forward"]]);
});
