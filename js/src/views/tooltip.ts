/** One tooltip for the whole explorer, kept inside it. Nothing that matters is only here. */
import { el, replaceChildren } from "./element.ts";

export interface TooltipText {
  readonly title: string;
  /** A full name in the code font. */
  readonly code?: string | null;
  readonly rows: readonly (readonly [label: string, value: string])[];
  readonly note?: string | null;
}

export interface Tooltip {
  readonly element: HTMLElement;
  show(event: { clientX: number; clientY: number }, text: TooltipText): void;
  hide(): void;
}

const OFFSET = 12;

export function createTooltip(root: HTMLElement): Tooltip {
  const element = el("div", { class: "cj-tip", "aria-hidden": "true", "data-testid": "tooltip" });
  const show = (event: { clientX: number; clientY: number }, text: TooltipText) => {
    const rows = text.rows.flatMap(([label, value]) => [el("dt", {}, label), el("dd", {}, value)]);
    replaceChildren(
      element,
      el("b", {}, text.title),
      text.code ? el("code", {}, text.code) : null,
      el("dl", {}, ...rows),
      text.note ? el("p", {}, text.note) : null,
    );
    element.classList.add("on");
    place(element, root, event);
  };
  return { element, show, hide: () => element.classList.remove("on") };
}

function place(element: HTMLElement, root: HTMLElement, event: { clientX: number; clientY: number }): void {
  const box = root.getBoundingClientRect();
  const x = event.clientX - box.left;
  const y = event.clientY - box.top;
  const [width, height] = [element.offsetWidth, element.offsetHeight];
  const left = x + OFFSET + width > box.width - 8 ? x - OFFSET - width : x + OFFSET;
  // Above the pointer where the window ends, so that it is never cut off.
  const below = event.clientY + OFFSET + height < window.innerHeight && y + OFFSET + height < box.height - 8;
  const top = below ? y + OFFSET : y - OFFSET - height;
  element.style.left = `${Math.max(8, left)}px`;
  element.style.top = `${Math.max(8, top)}px`;
}
