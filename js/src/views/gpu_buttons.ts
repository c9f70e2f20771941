/** Which GPUs the timeline stacks. */
import { plural } from "../model/names.ts";
import { NEEDS_KERNEL, type Context } from "./context.ts";
import { el } from "./element.ts";
import type { TimelineState } from "./timeline.ts";

/** Beyond so many, a list is shorter than a row of buttons. */
const MOST_BUTTONS = 16;
const MOST_STACKED = 8;

export function gpuButtons(
  context: Context,
  state: TimelineState,
  redraw: () => void,
): { readonly element: HTMLElement; draw(): void } {
  const { info } = state;
  const able = (gpu: number) => context.source.live() || info.embedded.some(({ gpus }) => gpus.includes(gpu));
  const toggle = (gpu: number) => {
    const on = state.gpus.includes(gpu);
    const next = on ? state.gpus.filter((one) => one !== gpu) : [...state.gpus, gpu];
    if (next.length === 0 || next.length > MOST_STACKED) return;
    state.gpus = info.gpus.filter((one) => next.includes(one));
    redraw();
  };
  const words = plural(context.payload, "gpu");
  const buttons = info.gpus.slice(0, MOST_BUTTONS).map((gpu) => {
    const onclick = () => able(gpu) && toggle(gpu);
    return { gpu, button: el("button", { "data-gpu-toggle": gpu, onclick }, String(gpu)) };
  });
  const group = el(
    "div",
    { class: "cj-seg", role: "group", "aria-label": `${words} shown in the timeline` },
    ...buttons.map(({ button }) => button),
  );
  const more = info.gpus.length > MOST_BUTTONS ? selectOf(info.gpus, words, state, redraw) : null;
  const element = el("div", { class: "cj-gpus" }, info.gpus.length > 1 ? group : null, more);
  return {
    element,
    draw: () => {
      for (const { gpu, button } of buttons) {
        button.setAttribute("aria-pressed", String(state.gpus.includes(gpu)));
        button.setAttribute("aria-disabled", String(!able(gpu)));
        button.title = able(gpu) ? `Show or hide ${gpu}` : `${gpu} ${NEEDS_KERNEL}`;
        button.setAttribute("aria-label", `${words.replace(/s$/, "")} ${gpu}`);
      }
    },
  };
}

function selectOf(
  gpus: readonly number[],
  words: string,
  state: TimelineState,
  redraw: () => void,
): HTMLSelectElement {
  const options = gpus.map((gpu) => el("option", { value: gpu }, String(gpu)));
  const list = el(
    "select",
    { "aria-label": `Show one of ${gpus.length} ${words}` },
    el("option", { value: "" }, "more"),
    ...options,
  );
  list.addEventListener("change", () => {
    if (list.value === "") return;
    state.gpus = [Number(list.value)];
    list.value = "";
    redraw();
  });
  return list;
}
