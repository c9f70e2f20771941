/** The source of the live widget: embedded cubes first, questions to Python for the rest. */
import type { Query } from "../model/cube.ts";
import type { Cube, Payload } from "../model/payload.ts";
import { isIncoming, type Answered, type Incoming, type Outgoing, type Question } from "../protocol.ts";
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
  resolve(answer: Answered): void;
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

  const request = (slot: string, question: Question): Promise<Answered> => {
    const old = take(pending, slot);
    if (old) channel.send({ kind: "cancel", id: old.id });
    const id = ++lastId;
    const promise = new Promise<Answered>((resolve, reject) => {
      const timer = setTimeout(() => setSilent(true), PATIENCE_MS);
      pending.set(slot, { id, resolve, reject, timer });
    });
    channel.send({ ...question, id });
    return promise;
  };

  const ask = async (slot: string, query: Query): Promise<Cube> => {
    const { cube } = await request(slot, { kind: "query", ...query });
    if (!cube) throw new Error("Python sent no sums.");
    memory.set(query, cube);
    return cube;
  };

  const receive = (message: unknown) => {
    if (!isIncoming(message)) return;
    const slot = [...pending].find(([, { id }]) => id === message.id)?.[0];
    const question = slot === undefined ? null : take(pending, slot);
    if (!question) return; // superseded
    settle(question, message);
    setSilent(false);
  };

  channel.on("msg:custom", receive);
  return {
    live: () => !silent,
    peek: (query) => answerFromCubes(payload, memory, query, silent),
    ask,
    request,
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
  if (message.kind === "answer") question.resolve(message);
  else question.reject(new Error(message.message));
}
