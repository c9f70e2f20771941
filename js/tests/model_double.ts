/** Stands in for an anywidget model: traits in a record, events by name. */
import type { Traits } from "../src/store/traits.ts";

type Callback = (...values: unknown[]) => void;

export interface FakeModel {
  get<K extends keyof Traits>(name: K): Traits[K];
  set<K extends keyof Traits>(name: K, value: Traits[K]): void;
  on(event: string, callback: Callback): void;
  off(event: string, callback: Callback): void;
  save_changes(): void;
  send(message: unknown): void;
  emit(event: string, ...values: unknown[]): void;
  listeners(): number;
  saved: number;
  readonly sent: unknown[];
}

export function fakeModel(traits: Partial<Traits> = {}): FakeModel {
  const values: Traits = {
    uid: "cj123",
    payload: "",
    selection: [],
    level_order: [],
    metric: "time",
    size: "time_ns",
    theme: "",
    ...traits,
  };
  const callbacks = new Map<string, Set<Callback>>();
  const emit = (event: string, ...args: unknown[]) =>
    callbacks.get(event)?.forEach((callback) => callback(...args));
  const model: FakeModel = {
    get: (name) => values[name],
    set: (name, value) => {
      values[name] = value;
      emit(`change:${name}`);
    },
    on: (event, callback) => {
      const known = callbacks.get(event) ?? new Set();
      callbacks.set(event, known.add(callback));
    },
    off: (event, callback) => void callbacks.get(event)?.delete(callback),
    save_changes: () => void model.saved++,
    send: (message) => void model.sent.push(message),
    emit,
    listeners: () => [...callbacks.values()].reduce((total, each) => total + each.size, 0),
    saved: 0,
    sent: [],
  };
  return model;
}
