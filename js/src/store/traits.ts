/** Keeps the synced state and the widget's traits the same, both ways. */
import type { LabelledFilter, Payload } from "../model/payload.ts";
import { completeOrder, fromLabels, toLabels } from "../model/selection.ts";
import type { State, Store, Synced } from "./state.ts";

export interface Traits {
  uid: string;
  payload: string;
  selection: LabelledFilter[];
  level_order: string[];
  metric: string;
  size: string;
  theme: "" | "light" | "dark";
}

/** The part of an anywidget model that carries traits. */
export interface TraitModel {
  get<K extends keyof Traits>(name: K): Traits[K];
  set<K extends keyof Traits>(name: K, value: Traits[K]): void;
  on(event: string, callback: () => void): void;
  off(event: string, callback: () => void): void;
  save_changes(): void;
}

/** Python is told after this pause, not on every key. */
const PAUSE_MS = 150;

const WATCHED = ["selection", "level_order", "metric", "size", "theme"] as const;

/** The state as the traits have it; labels that this recording lacks are left out. */
export function syncedFrom(payload: Payload, model: Pick<TraitModel, "get">): Synced {
  const metric = model.get("metric");
  return {
    selection: fromLabels(payload, model.get("selection") ?? []),
    order: completeOrder(payload, model.get("level_order") ?? []),
    metric: payload.metrics.some(({ name }) => name === metric) ? metric : "time",
    size: sizeIn(payload, model.get("size")),
    theme: model.get("theme") ?? "",
  };
}

/** What this recording can be sized by; else time. */
export function sizeIn(payload: Payload, name: string | undefined): string {
  return payload.sizes?.some((size) => size.name === name) && name ? name : "time_ns";
}

/** Returns the function that ends the syncing; what was not sent yet is sent then. */
export function syncState(payload: Payload, model: TraitModel, store: Store): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;

  const send = () => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    model.save_changes();
  };

  const push = (now: State, before: State) => {
    const { selection, order, metric, size } = now.synced;
    const changed = [
      selection !== before.synced.selection && put(model, "selection", toLabels(payload, selection)),
      order !== before.synced.order && put(model, "level_order", [...order]),
      metric !== before.synced.metric && put(model, "metric", metric),
      size !== before.synced.size && put(model, "size", size),
    ];
    if (!changed.includes(true)) return;
    if (timer !== null) clearTimeout(timer);
    timer = setTimeout(send, PAUSE_MS);
  };

  const pull = () => {
    const synced = syncedFrom(payload, model);
    const sorted = synced.metric !== store.get().synced.metric;
    store.setSynced(synced);
    if (sorted) store.setLocal({ sort: { column: synced.metric, descending: true } });
  };

  const unsubscribe = store.subscribe(push);
  for (const name of WATCHED) model.on(`change:${name}`, pull);
  return () => {
    unsubscribe();
    for (const name of WATCHED) model.off(`change:${name}`, pull);
    if (timer !== null) send();
  };
}

/** True if the trait was different. */
function put<K extends keyof Traits>(model: TraitModel, name: K, value: Traits[K]): boolean {
  if (JSON.stringify(model.get(name)) === JSON.stringify(value)) return false;
  model.set(name, value);
  return true;
}
