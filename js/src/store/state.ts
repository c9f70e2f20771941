/** The state of one explorer: what is synced with Python, and what is only this view's own. */
import type { Filter, Level, Payload } from "../model/payload.ts";

/** Synced with Python, both ways, by the live widget. */
export interface Synced {
  readonly selection: readonly Filter[];
  readonly order: readonly Level[];
  /** Name of the metric that the table is sorted by. */
  readonly metric: string;
  /** Name of the measure that sizes the icicle. */
  readonly size: string;
  readonly theme: "" | "light" | "dark";
}

export interface Sort {
  /** "name" or the name of a metric. */
  readonly column: string;
  readonly descending: boolean;
}

/** This view's own; forgotten with it. */
export interface Local {
  readonly search: string;
  /** Null: levels with an order of their own in that order, others by the metric. */
  readonly sort: Sort | null;
  /** Names of the metrics shown as columns. */
  readonly columns: readonly string[];
  readonly showAll: boolean;
  /** "family", or the name of a metric. */
  readonly colour: string;
  readonly qualityOpen: boolean;
}

export interface State {
  readonly synced: Synced;
  readonly local: Local;
}

export interface Store {
  get(): State;
  setSynced(patch: Partial<Synced>): void;
  setLocal(patch: Partial<Local>): void;
  /** Returns the function that ends the subscription. */
  subscribe(listener: (state: State, before: State) => void): () => void;
}

const DEFAULT_METRIC = "time";
const DEFAULT_SIZE = "time_ns";
const FIRST_COLUMNS = ["time", "share", "kernels", "mean_duration", "overlap", "idle", "spread"];

const COMPARED_COLUMNS = ["time", "share", "change", "difference", "kernels", "overlap"];

export function firstState(payload: Payload, synced: Partial<Synced>): State {
  const { metric = DEFAULT_METRIC } = synced;
  const size = DEFAULT_SIZE;
  return {
    synced: { selection: [], order: payload.order, metric, size, theme: "", ...synced },
    local: {
      search: "",
      sort: metric === DEFAULT_METRIC ? null : { column: metric, descending: true },
      columns: payload.compare ? COMPARED_COLUMNS : FIRST_COLUMNS,
      showAll: false,
      colour: payload.compare ? "change" : "family",
      qualityOpen: false,
    },
  };
}

export function createStore(first: State): Store {
  let state = first;
  const listeners = new Set<(state: State, before: State) => void>();
  const replace = (next: State) => {
    const before = state;
    state = next;
    for (const listener of [...listeners]) listener(state, before);
  };
  return {
    get: () => state,
    setSynced: (patch) => {
      const synced = patched(state.synced, patch);
      if (synced !== state.synced) replace({ ...state, synced });
    },
    setLocal: (patch) => {
      const local = patched(state.local, patch);
      if (local !== state.local) replace({ ...state, local });
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The same object if nothing differs; parts that do not differ keep their identity. */
function patched<T extends object>(old: T, patch: Partial<T>): T {
  const names = (Object.keys(patch) as (keyof T)[]).filter(
    (name) => JSON.stringify(old[name]) !== JSON.stringify(patch[name]),
  );
  if (names.length === 0) return old;
  return { ...old, ...Object.fromEntries(names.map((name) => [name, patch[name]])) };
}
