/** Copies text, also where the page may not use the clipboard interface (plain http, file pages). */
import { el } from "./element.ts";

export async function copyText(text: string, root: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyFromArea(text, root);
  }
}

function copyFromArea(text: string, root: HTMLElement): boolean {
  const focused = document.activeElement;
  const area = el("textarea", { class: "cj-vh", "aria-hidden": "true", tabindex: -1 });
  area.value = text;
  root.append(area);
  area.select();
  try {
    // Deprecated, and the only way without the clipboard interface.
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    area.remove();
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  }
}
