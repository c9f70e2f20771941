/** The levels in drill-down order: move them with the arrow keys or by dragging. */
import { capital, levelWord, nameOf } from "../model/names.ts";
import type { Level } from "../model/payload.ts";
import { codeOf, moved, release } from "../model/selection.ts";
import { NEEDS_KERNEL, type Context, type View } from "./context.ts";
import { changeGuard, el, replaceChildren, svg } from "./element.ts";

export function chipsView(context: Context): View {
  const chips = el("div", { class: "cj-chips", role: "group", "aria-label": "Order of the levels" });
  const note = el("span", { class: "cj-note" });
  const changed = changeGuard();
  return {
    element: el("div", { class: "cj-levels" }, el("span", { class: "cj-lab" }, "Levels"), chips, note),
    draw: ({ synced }) => {
      const { missing } = context.drill();
      if (!changed(synced.selection, synced.order, missing.join())) return;
      drawChips(context, chips, missing);
      note.textContent = noteOf(missing.map((level) => levelWord(context.payload, level)));
    },
  };
}

function drawChips(context: Context, chips: HTMLElement, missing: readonly Level[]): void {
  const { selection, order } = context.store.get().synced;
  const focused = chips.contains(document.activeElement)
    ? document.activeElement?.getAttribute("data-level")
    : null;
  const nodes = order.flatMap((level, at) => {
    const on = { ...keys(context, chips, level, at), ...drags(context, chips, level, at) };
    const chip = chipOf(context, level, codeOf(selection, level), missing.includes(level), on);
    return at === 0 ? [chip] : [arrow(), chip];
  });
  replaceChildren(chips, ...nodes);
  if (focused) focusChip(chips, focused);
}

function focusChip(chips: HTMLElement, level: string): void {
  chips.querySelector<HTMLElement>(`[data-level="${level}"]`)?.focus();
}

function move(context: Context, chips: HTMLElement, level: Level, to: number): void {
  context.store.setSynced({ order: moved(context.store.get().synced.order, level, to) });
  focusChip(chips, level);
  const { order } = context.store.get().synced;
  const needs = context.drill().missing.includes(level) ? `, ${NEEDS_KERNEL}` : "";
  const place = `level ${order.indexOf(level) + 1} of ${order.length}`;
  context.announce(`${levelWord(context.payload, level)} is ${place}${needs}`);
}

type Listeners = Record<string, (event: never) => void>;

function keys(context: Context, chips: HTMLElement, level: Level, at: number): Listeners {
  return {
    onkeydown: (event: KeyboardEvent) => {
      const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
      if (step === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      move(context, chips, level, at + step);
    },
  };
}

/** What is dragged is marked in the document, since other chips must not read the transferred data. */
function drags(context: Context, chips: HTMLElement, level: Level, at: number): Listeners {
  const dragged = () => chips.querySelector(".dragged")?.getAttribute("data-level") as Level | undefined;
  const unmark = (event: DragEvent) => (event.currentTarget as Element).classList.remove("over");
  return {
    ondragstart: (event: DragEvent) => {
      (event.currentTarget as Element).classList.add("dragged");
      event.dataTransfer?.setData("text/plain", level);
    },
    ondragend: (event: DragEvent) => (event.currentTarget as Element).classList.remove("dragged"),
    ondragover: (event: DragEvent) => {
      if (dragged() === undefined || dragged() === level) return;
      event.preventDefault();
      (event.currentTarget as Element).classList.add("over");
    },
    ondragleave: unmark,
    ondrop: (event: DragEvent) => {
      event.preventDefault();
      unmark(event);
      const from = dragged();
      if (from !== undefined) move(context, chips, from, at);
    },
  };
}

function noteOf(words: readonly string[]): string {
  if (words.length === 0) return "";
  return `${capital(list(words))} here ${words.length === 1 ? "needs" : "need"} a running Jupyter kernel`;
}

function chipOf(
  context: Context,
  level: Level,
  code: number | undefined,
  missing: boolean,
  listeners: Listeners,
): HTMLElement {
  const word = levelWord(context.payload, level);
  const fixed = code !== undefined;
  const name = fixed ? nameOf(context.payload, level, code) : "";
  const single = !fixed && context.payload.dictionaries[level].length === 1;
  const title = fixed
    ? `${word}: ${name}. Click to release it.`
    : missing
      ? `${word} ${NEEDS_KERNEL} here`
      : single
        ? `One ${word} recorded`
        : "Drag, or press the left and right arrow keys, to reorder";
  const free = () => {
    if (fixed) context.select(release(context.store.get().synced.selection, [level]));
  };
  return el(
    "button",
    {
      class: `cj-level${fixed ? " set" : ""}${missing ? " missing" : ""}${single ? " single" : ""}`,
      draggable: "true",
      "data-level": level,
      "data-testid": "level-chip",
      "aria-disabled": missing ? "true" : null,
      "aria-label": `${word}${fixed ? `, fixed to ${name}` : ""}${missing ? `, ${NEEDS_KERNEL}` : ""}`,
      title,
      onclick: free,
      ...listeners,
    },
    word,
  );
}

function arrow(): SVGElement {
  const shape = svg("svg", { width: 7, height: 8, viewBox: "0 0 7 8", "aria-hidden": "true" });
  shape.append(svg("path", { d: "M1.5 1l3 3-3 3", fill: "none", stroke: "currentColor" }));
  return shape;
}

function list(words: readonly string[]): string {
  return words.length < 2
    ? words.join()
    : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1] ?? ""}`;
}
