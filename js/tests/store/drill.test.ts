import { expect, test, vi } from "vitest";
import { embeddedSource, type DataSource } from "../../src/bridge/source.ts";
import { queryKey, rollUp, type Query } from "../../src/model/cube.ts";
import type { Cube, Filter } from "../../src/model/payload.ts";
import { sizeOf } from "../../src/model/tree.ts";
import { createDrill } from "../../src/store/drill.ts";
import { createQuestions } from "../../src/store/questions.ts";
import { firstState } from "../../src/store/state.ts";
import { createVariation } from "../../src/store/variation_source.ts";
import { buildPayload, fullCube } from "../payload.ts";

const payload = buildPayload();
const at = (selection: Filter[] = [], order = payload.order) => ({
  ...firstState(payload, {}).synced,
  selection,
  order,
});

/** A live source whose answers the test gives by hand. */
function slowSource() {
  const embedded = embeddedSource(payload);
  const known = new Map<string, Cube>();
  const asked: Query[] = [];
  let settle: { resolve: (cube: Cube) => void; reject: (error: Error) => void } | null = null;
  const source: DataSource = {
    live: () => true,
    peek: (query) => known.get(queryKey(query)) ?? embedded.peek(query),
    ask: (_, query) => {
      asked.push(query);
      return new Promise((resolve, reject) => (settle = { resolve, reject }));
    },
    request: () => Promise.reject(new Error("not in this test")),
    close: () => undefined,
  };
  const reply = async () => {
    const query = asked.at(-1) as Query;
    const cube = rollUp(fullCube(), query);
    known.set(queryKey(query), cube);
    settle?.resolve(cube);
    await Promise.resolve();
  };
  return { source, asked, reply, fail: (text: string) => settle?.reject(new Error(text)) };
}

test("without Python the tree has the levels that are embedded, the others are missing", () => {
  const source = embeddedSource(payload);
  const drill = createDrill(
    payload,
    source,
    createQuestions(source, () => undefined),
  );
  expect(drill(at())).toMatchObject({
    levels: ["phase", "op", "layer", "kernel"],
    missing: ["gpu", "iteration"],
    pending: false,
  });
  const gpu = drill(at([["gpu", 1]]));
  expect(gpu).toMatchObject({ levels: ["phase", "layer", "iteration"], missing: ["op", "kernel"] });
  expect(sizeOf(gpu.tree.root)).toBe((125 + 125 + 187.5) * 1e6);
});

test("the same question gives the same tree", () => {
  const source = embeddedSource(payload);
  const drill = createDrill(
    payload,
    source,
    createQuestions(source, () => undefined),
  );
  expect(drill(at()).tree).toBe(drill(at()).tree);
});

test("with Python, what is at hand is shown until the whole answer is there", async () => {
  const { source, asked, reply } = slowSource();
  const onAnswer = vi.fn();
  const drill = createDrill(payload, source, createQuestions(source, onAnswer));
  const first = drill(at());
  expect(first).toMatchObject({ levels: ["phase", "op", "layer", "kernel"], pending: true });
  drill(at());
  expect(asked).toHaveLength(1);
  await reply();
  expect(onAnswer).toHaveBeenCalledTimes(1);
  expect(drill(at())).toMatchObject({ levels: payload.order, pending: false });
});

test("where nothing is at hand, the old picture stays", async () => {
  const { source, reply } = slowSource();
  const drill = createDrill(
    payload,
    source,
    createQuestions(source, () => undefined),
  );
  drill(at());
  await reply();
  const before = drill(at());
  const both: Filter[] = [
    ["gpu", 0],
    ["op", 0],
  ];
  const waiting = drill(at(both));
  expect(waiting.tree).toBe(before.tree);
  expect(waiting).toMatchObject({ selection: [], pending: true });
  await reply();
  expect(drill(at(both))).toMatchObject({ selection: both, pending: false });
});

test("a failure is told once and not asked again", async () => {
  const { source, asked, fail } = slowSource();
  const drill = createDrill(
    payload,
    source,
    createQuestions(source, () => undefined),
  );
  drill(at());
  fail("no such level");
  await Promise.resolve();
  await Promise.resolve();
  expect(drill(at()).failure).toBe("no such level");
  expect(asked).toHaveLength(1);
});

test("the variation is of the selection, or of the most of it that is embedded", () => {
  const source = embeddedSource(payload);
  const variation = createVariation(
    source,
    createQuestions(source, () => undefined),
  );
  expect(
    variation([
      ["phase", 1],
      ["gpu", 0],
    ]),
  ).toMatchObject({ filters: [["phase", 1]], left: [] });
  expect(
    variation([
      ["phase", 1],
      ["op", 0],
    ]),
  ).toMatchObject({ filters: [["phase", 1]], left: [["op", 0]] });
  expect(
    variation([
      ["op", 0],
      ["layer", 2],
    ]),
  ).toMatchObject({ filters: [["layer", 2]], left: [["op", 0]] });
});
