/** The source of the live widget: embedded cubes first, questions to Python for the rest. */
import type { Query } from "../model/cube.ts";
import type { Cube, Payload } from "../model/payload.ts";
import { isIncoming, type Incoming, type Outgoing } from "../protocol.ts";
import { answerFromCubes, createMemory, type DataSource } from "./source.ts";

/** No answer for so long: the Jupyter kernel is gone, or busy with a cell. */
const PATIENCE_MS = 10_000;

/** The part of an anywidget model that carries questions and answers. */
export interface Channel {
  send(message: Outgoing): void;
  on(event: "msg:custom", callback: (message: unknown) => void): void;
  off(event: "msg:custom", callback: (message: unknown) => void): void;
}

interface Pending {
  readonly id: number;
  readonly query: Query;
  resolve(cube: Cube): void;
  reject(error: Error): void;
  readonly timer: ReturnType<typeof setTimeout>;
}

/** `onReach` is called when Python falls silent or is heard again. */
export function liveSource(payload: Payload, channel: Channel, onReach: () => void): DataSource {
  const memory = createMemory();
  const pending = new Map<string, Pending>();
  let lastId = 0;
  let silent = false;

  const setSilent = (now: boolean) => {
    if (silent === now) return;
    silent = now;
    onReach();
  };

  const ask = (slot: string, query: Query): Promise<Cube> => {
    const old = take(pending, slot);
    if (old) channel.send({ kind: "cancel", id: old.id });
    const id = ++lastId;
    const promise = new Promise<Cube>((resolve, reject) => {
      const timer = setTimeout(() => setSilent(true), PATIENCE_MS);
      pending.set(slot, { id, query, resolve, reject, timer });
    });
    channel.send({ kind: "query", id, levels: query.levels, filters: query.filters });
    return promise;
  };

  const receive = (message: unknown) => {
    if (!isIncoming(message)) return;
    const slot = [...pending].find(([, { id }]) => id === message.id)?.[0];
    const question = slot === undefined ? null : take(pending, slot);
    if (!question) return; // superseded
    if (message.kind === "answer") memory.set(question.query, message.cube);
    settle(question, message);
    setSilent(false);
  };

  channel.on("msg:custom", receive);
  return {
    live: () => !silent,
    peek: (query) => answerFromCubes(payload, memory, query, silent),
    ask,
    close: () => {
      channel.off("msg:custom", receive);
      for (const slot of [...pending.keys()]) take(pending, slot);
    },
  };
}

/** Take a question out; nobody waits for it anymore. */
function take(pending: Map<string, Pending>, slot: string): Pending | null {
  const question = pending.get(slot) ?? null;
  if (question) clearTimeout(question.timer);
  pending.delete(slot);
  return question;
}

function settle(question: Pending, message: Incoming): void {
  if (message.kind === "answer") question.resolve(message.cube);
  else question.reject(new Error(message.message));
}
