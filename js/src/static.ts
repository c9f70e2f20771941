/** Entry point of static pages: turns the plain table into the explorer, without a Jupyter kernel. */
import { inflate } from "./bridge/inflate.ts";
import { embeddedSource } from "./bridge/source.ts";
import { readPayload, type Payload } from "./model/payload.ts";
import { fromLabels } from "./model/selection.ts";
import type { Synced } from "./store/state.ts";
import { watchDeadWidget } from "./views/dead_widget.ts";
import { el } from "./views/element.ts";
import { mountExplorer } from "./views/explorer.ts";

/** What Python had selected when it made the page. */
function firstSynced(payload: Payload): Partial<Synced> {
  return {
    selection: fromLabels(payload, payload.selection ?? []),
    ...(payload.metric === undefined ? {} : { metric: payload.metric }),
    ...(payload.size === undefined ? {} : { size: payload.size }),
    ...(payload.theme === undefined ? {} : { theme: payload.theme }),
  };
}

/** Below the interactive view the table needs no title of its own. */
function foldAway(table: HTMLDetailsElement): void {
  table.open = false;
  const summary = table.querySelector("summary");
  if (summary) {
    summary.textContent = "The same as a plain table";
    summary.style.cssText = "font-size:11px;opacity:.7;cursor:pointer;margin:4px 0";
  }
}

/** Upgrade the first static part of this uid that was not upgraded yet. Never throws. */
export async function upgrade(uid: string, base64: string): Promise<void> {
  const hosts = [...document.querySelectorAll<HTMLElement>("[data-chopper-static]")];
  const host = hosts.find(
    ({ dataset }) => dataset["chopperStatic"] === uid && dataset["upgraded"] === undefined,
  );
  if (!host) return;
  host.dataset["upgraded"] = "";
  watchDeadWidget(host);
  const table = host.querySelector<HTMLDetailsElement>("details.cj-static-table");
  const slot = el("div");
  if (table) table.before(slot);
  else host.append(slot);
  try {
    const payload = readPayload(await inflate(base64));
    mountExplorer(slot, {
      payload,
      mode: "static",
      synced: firstSynced(payload),
      source: () => embeddedSource(payload),
    });
    if (table) foldAway(table);
  } catch (error) {
    // The plain table stays open: it says the most important things without us.
    slot.textContent = `The interactive view did not start: ${error instanceof Error ? error.message : String(error)}`;
  }
}
