/** The source of the live widget: embedded cubes first, questions to Python for the rest. */
import type { Query } from "../model/cube.ts";
import type { Cube, Payload } from "../model/payload.ts";
import { isIncoming, type Outgoing } from "../protocol.ts";
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

  const drop = (slot: string) => {
    const old = pending.get(slot);
    if (!old) return;
    clearTimeout(old.timer);
    pending.delete(slot);
    channel.send({ kind: "cancel", id: old.id });
  };

  const ask = (slot: string, query: Query): Promise<Cube> => {
    drop(slot);
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
    const found = [...pending].find(([, question]) => question.id === message.id);
    if (!found) return; // superseded
    const [slot, question] = found;
    clearTimeout(question.timer);
    pending.delete(slot);
    if (message.kind === "failure") question.reject(new Error(message.message));
    else {
      memory.set(question.query, message.cube);
      question.resolve(message.cube);
    }
    setSilent(false);
  };

  channel.on("msg:custom", receive);
  return {
    live: () => !silent,
    peek: (query) => answerFromCubes(payload, memory, query, silent),
    ask,
    close: () => {
      channel.off("msg:custom", receive);
      for (const question of pending.values()) clearTimeout(question.timer);
      pending.clear();
    },
  };
}
