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
  let dragged: Level | null = null;

  const move = (level: Level, to: number) => {
    const { order } = context.store.get().synced;
    context.store.setSynced({ order: moved(order, level, to) });
    chips.querySelector<HTMLElement>(`[data-level="${level}"]`)?.focus();
    const place = context.store.get().synced.order.indexOf(level) + 1;
    const missing = context.drill().missing.includes(level);
    const word = levelWord(context.payload, level);
    context.announce(`${word} is level ${place} of ${order.length}${missing ? `, ${NEEDS_KERNEL}` : ""}`);
  };

  const listeners = (level: Level, at: number) => ({
    onkeydown: (event: KeyboardEvent) => {
      const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
      if (step === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      move(level, at + step);
    },
    ondragstart: (event: DragEvent) => {
      dragged = level;
      event.dataTransfer?.setData("text/plain", level);
    },
    ondragend: () => {
      dragged = null;
      for (const chip of chips.children) chip.classList.remove("over");
    },
    ondragover: (event: DragEvent) => {
      if (dragged === null || dragged === level) return;
      event.preventDefault();
      (event.currentTarget as Element).classList.add("over");
    },
    ondragleave: (event: DragEvent) => (event.currentTarget as Element).classList.remove("over"),
    ondrop: (event: DragEvent) => {
      event.preventDefault();
      if (dragged !== null) move(dragged, at);
    },
  });

  const draw = (selection: readonly (readonly [Level, number])[], order: readonly Level[], missing: readonly Level[]) => {
    const nodes = order.flatMap((level, i) => {
      const chip = chipOf(context, level, codeOf(selection, level), missing.includes(level), listeners(level, i));
      return i === 0 ? [chip] : [arrow(), chip];
    });
    const focused = (chips.getRootNode() as Document).activeElement?.getAttribute("data-level");
    const hadFocus = chips.contains(document.activeElement);
    replaceChildren(chips, ...nodes);
    if (hadFocus && focused) chips.querySelector<HTMLElement>(`[data-level="${focused}"]`)?.focus();
    const words = missing.map((level) => levelWord(context.payload, level));
    note.textContent = words.length ? `${capital(list(words))} here ${words.length === 1 ? "needs" : "need"} a running Jupyter kernel` : "";
  };

  return {
    element: el("div", { class: "cj-levels" }, el("span", { class: "cj-lab" }, "Levels"), chips, note),
    draw: ({ synced }) => {
      const { missing } = context.drill();
      if (changed(synced.selection, synced.order, missing.join())) draw(synced.selection, synced.order, missing);
    },
  };
}

function chipOf(
  context: Context,
  level: Level,
  code: number | undefined,
  missing: boolean,
  listeners: Record<string, (event: never) => void>,
): HTMLElement {
  const word = levelWord(context.payload, level);
  const fixed = code !== undefined;
  const name = fixed ? nameOf(context.payload, level, code) : "";
  const title = fixed ? `${word}: ${name}. Click to release it.` : missing ? `${word} ${NEEDS_KERNEL} here` : "Drag, or press the left and right arrow keys, to reorder";
  const free = () => {
    if (fixed) context.select(release(context.store.get().synced.selection, [level]));
  };
  return el(
    "button",
    {
      class: `cj-level${fixed ? " set" : ""}${missing ? " missing" : ""}`,
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
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1] ?? ""}`;
}
