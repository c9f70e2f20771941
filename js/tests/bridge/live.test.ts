import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { liveSource, type Channel } from "../../src/bridge/live.ts";
import { rollUp, type Query } from "../../src/model/cube.ts";
import type { Outgoing } from "../../src/protocol.ts";
import { buildPayload, fullCube } from "../payload.ts";

const DEEP: Query = { levels: ["gpu", "op"], filters: [["phase", 0]] };
const DEEPER: Query = { levels: ["gpu", "op"], filters: [["phase", 1]] };

function fakeChannel() {
  const sent: Outgoing[] = [];
  const listeners = new Set<(message: unknown) => void>();
  const channel: Channel = {
    send: (message) => void sent.push(message),
    on: (_, callback) => void listeners.add(callback),
    off: (_, callback) => void listeners.delete(callback),
  };
  const receive = (message: unknown) => listeners.forEach((listener) => listener(message));
  return { channel, sent, listeners, receive };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("what is embedded is answered at once, without asking", () => {
  const { channel, sent } = fakeChannel();
  const source = liveSource(buildPayload(), channel, () => undefined);
  expect(source.peek({ levels: ["phase"], filters: [] })?.codes).toEqual([[0, 1, 2]]);
  expect(source.peek(DEEP)).toBeNull();
  expect(sent).toEqual([]);
});

test("an answer from Python is remembered", async () => {
  const { channel, sent, receive } = fakeChannel();
  const source = liveSource(buildPayload(), channel, () => undefined);
  const promise = source.ask("view", DEEP);
  expect(sent).toEqual([{ kind: "query", id: 1, levels: ["gpu", "op"], filters: [["phase", 0]] }]);
  const cube = rollUp(fullCube(), DEEP);
  receive({ kind: "answer", id: 1, cube });
  await expect(promise).resolves.toBe(cube);
  expect(source.peek(DEEP)).toBe(cube);
});

test("a new question supersedes the one before; late answers to that are ignored", async () => {
  const { channel, sent, receive } = fakeChannel();
  const source = liveSource(buildPayload(), channel, () => undefined);
  const settled = vi.fn();
  void source.ask("view", DEEP).finally(settled);
  const second = source.ask("view", DEEPER);
  expect(sent.map(({ kind, id }) => `${kind} ${id}`)).toEqual(["query 1", "cancel 1", "query 2"]);
  receive({ kind: "answer", id: 1, cube: rollUp(fullCube(), DEEP) });
  receive({ kind: "answer", id: 2, cube: rollUp(fullCube(), DEEPER) });
  await second;
  expect(settled).not.toHaveBeenCalled();
  expect(source.peek(DEEP)).toBeNull();
});

test("views do not supersede each other", () => {
  const { channel, sent } = fakeChannel();
  const source = liveSource(buildPayload(), channel, () => undefined);
  void source.ask("one", DEEP);
  void source.ask("two", DEEPER);
  expect(sent.map(({ kind }) => kind)).toEqual(["query", "query"]);
});

test("a failure carries Python's words", async () => {
  const { channel, receive } = fakeChannel();
  const source = liveSource(buildPayload(), channel, () => undefined);
  const promise = source.ask("view", DEEP);
  receive({ kind: "failure", id: 1, message: "the trace was closed" });
  await expect(promise).rejects.toThrow("the trace was closed");
});

test("other messages are left alone", () => {
  const { channel, receive } = fakeChannel();
  const source = liveSource(buildPayload(), channel, () => undefined);
  void source.ask("view", DEEP);
  for (const message of [null, 5, {}, { kind: "answer" }, { kind: "else", id: 1 }]) receive(message);
  expect(source.peek(DEEP)).toBeNull();
});

test("a Jupyter kernel that stays silent counts as gone until it is heard again", () => {
  const { channel, receive } = fakeChannel();
  const onReach = vi.fn();
  const source = liveSource(buildPayload(), channel, onReach);
  void source.ask("view", DEEP);
  vi.advanceTimersByTime(9_000);
  expect(source.live()).toBe(true);
  vi.advanceTimersByTime(2_000);
  expect(source.live()).toBe(false);
  receive({ kind: "answer", id: 1, cube: rollUp(fullCube(), DEEP) });
  expect(source.live()).toBe(true);
  expect(onReach).toHaveBeenCalledTimes(2);
});

test("closing stops listening and waiting", () => {
  const { channel, listeners } = fakeChannel();
  const source = liveSource(buildPayload(), channel, () => undefined);
  void source.ask("view", DEEP);
  source.close();
  expect(listeners.size).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
});
