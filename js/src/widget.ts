/** Entry point of the live widget: an anywidget module. */
import type { AnyModel, Render } from "@anywidget/types";
import { inflate } from "./bridge/inflate.ts";
import { liveSource } from "./bridge/live.ts";
import { readPayload } from "./model/payload.ts";
import { syncState, syncedFrom, type Traits } from "./store/traits.ts";
import { el } from "./views/element.ts";
import { mountExplorer, type Explorer } from "./views/explorer.ts";

const render: Render<Traits> = async ({ model, el: host }) => {
  // As long as this view is in the page, the static part of the same uid is not shown.
  host.append(
    el("style", {}, `[data-chopper-static="${CSS.escape(model.get("uid"))}"]{display:none!important}`),
  );
  const slot = el("div");
  host.append(slot);
  let stop: () => void = () => undefined;
  const start = async () => {
    stop();
    slot.replaceChildren();
    stop = await mountLive(slot, model);
  };
  // One after another: a new payload may come while the first is still being unpacked.
  let started = Promise.resolve();
  const restart = () => (started = started.then(start));
  model.on("change:payload", restart);
  await restart();
  return () => {
    model.off("change:payload", restart);
    stop();
    host.replaceChildren();
  };
};

/** Returns the function that takes it away again. */
async function mountLive(slot: HTMLElement, model: AnyModel<Traits>): Promise<() => void> {
  try {
    const payload = readPayload(await inflate(model.get("payload")));
    const explorer: Explorer = mountExplorer(slot, {
      payload,
      mode: "live",
      synced: syncedFrom(payload, model),
      source: (onReach) => liveSource(payload, channelOf(model), onReach),
    });
    const unsync = syncState(payload, model, explorer.store);
    return () => {
      unsync();
      explorer.destroy();
    };
  } catch (error) {
    slot.textContent = `The explorer did not start: ${error instanceof Error ? error.message : String(error)}`;
    return () => undefined;
  }
}

function channelOf(model: AnyModel<Traits>): Parameters<typeof liveSource>[1] {
  return {
    send: (message) => model.send(message),
    on: (event, callback) => model.on(event, callback),
    off: (event, callback) => model.off(event, callback),
  };
}

export default { render };
