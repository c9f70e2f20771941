/** Mounts a static explorer and finds its parts, for the tests of the views. */
import { afterEach, beforeEach } from "vitest";
import { embeddedSource } from "../../src/bridge/source.ts";
import type { Filter, Payload } from "../../src/model/payload.ts";
import { mountExplorer, type Explorer } from "../../src/views/explorer.ts";
import { buildPayload } from "../payload.ts";

export let explorer: Explorer;

export function mount(changes: Partial<Payload> = {}): void {
  const payload = buildPayload(changes);
  const source = () => embeddedSource(payload);
  explorer = mountExplorer(document.body, { payload, mode: "static", synced: {}, source });
}

export function find(selector: string): HTMLElement {
  const element = explorer.root.querySelector<HTMLElement>(selector);
  if (!element) throw new Error(`nothing matches ${selector}`);
  return element;
}

export function all(selector: string): HTMLElement[] {
  return [...explorer.root.querySelectorAll<HTMLElement>(selector)];
}

export function labels(selector: string): (string | null)[] {
  return all(selector).map((element) => element.getAttribute("data-label"));
}

export function node(label: string): HTMLElement {
  return find(`[data-testid=icicle-node][data-label="${label}"]`);
}

export function chip(level: string): HTMLElement {
  return find(`[data-testid=level-chip][data-level=${level}]`);
}

export function click(element: Element): void {
  element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
}

/** Press a key where the focus is. */
export function press(key: string, init: KeyboardEventInit = {}): void {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...init });
  document.activeElement?.dispatchEvent(event);
}

export function crumb(): string {
  return find("[data-testid=breadcrumb]").textContent;
}

export function selection(): readonly Filter[] {
  return explorer.store.get().synced.selection;
}

/** A fresh page for every test. */
export function useFreshPage(): void {
  beforeEach(() => document.body.replaceChildren());
  afterEach(() => explorer.destroy());
}
