import { expect, test } from "vitest";
import type { DataSource } from "../../src/bridge/source.ts";
import type { Answered, Question } from "../../src/protocol.ts";
import { createOverheads } from "../../src/store/overhead_source.ts";
import { OVERHEADS, WHOLE } from "../overheads.ts";

/** A source that keeps what it is asked until it is told the answer. */
function fakeSource(live = true) {
  const asked: Question[] = [];
  let settle: { resolve(answer: Answered): void; reject(error: Error): void } | null = null;
  const source: DataSource = {
    live: () => live,
    peek: () => null,
    ask: () => Promise.reject(new Error("not asked")),
    request: (_slot, question) => {
      asked.push(question);
      return new Promise((resolve, reject) => (settle = { resolve, reject }));
    },
    close: () => undefined,
  };
  return { source, asked, settle: () => settle };
}

const OP = [["op", 2]] as const;

test("what is not embedded is asked once, and the old row stays until it has come", async () => {
  const { source, asked, settle } = fakeSource();
  let told: () => void = () => undefined;
  const answered = new Promise<void>((resolve) => (told = resolve));
  const at = createOverheads(OVERHEADS, source, told);
  expect(at([]).row?.actual).toBe(600e6);
  expect(at(OP)).toMatchObject({ pending: true, filters: [] });
  expect(at(OP).row?.actual).toBe(600e6);
  expect(asked).toEqual([{ kind: "overheads", filters: OP }]);
  settle()?.resolve({ overheads: { ...WHOLE, levels: ["op"], codes: [[2]], actual: [7e6] } });
  await answered;
  expect(at(OP)).toMatchObject({ pending: false, filters: OP });
  expect(at(OP).row?.actual).toBe(7e6);
  expect(asked.length).toBe(1);
});

test("a single kernel is told of by its op, without a question of its own", () => {
  const { source, asked } = fakeSource();
  const at = createOverheads(OVERHEADS, source, () => undefined);
  const answer = at([
    ["phase", 1],
    ["kernel", 4],
  ]);
  expect(answer).toMatchObject({ pending: false, filters: [["phase", 1]] });
  expect(answer.row?.actual).toBe(1200e6);
  expect(asked).toEqual([]);
});

test("what Python cannot answer is said, and the nearest row is shown", async () => {
  const { source, settle } = fakeSource();
  let told: () => void = () => undefined;
  const answered = new Promise<void>((resolve) => (told = resolve));
  const at = createOverheads(OVERHEADS, source, told);
  at(OP);
  settle()?.reject(new Error("no such op"));
  await answered;
  const answer = at(OP);
  expect(answer).toMatchObject({ pending: false, failure: "no such op", filters: [] });
  expect(answer.row?.actual).toBe(600e6);
});
