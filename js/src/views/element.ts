/** Makes elements. Text goes in as text nodes only, so that names from traces stay text. */

type Value = string | number | boolean | undefined | null | ((event: never) => void);
export type Props = Readonly<Record<string, Value>>;
export type Child = Node | string | null | false;

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; `onclick: f` listens, false, null and undefined leave an attribute out. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), props, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill<T extends Element>(element: T, props: Props, children: readonly Child[]): T {
  for (const [name, value] of Object.entries(props)) setProp(element, name, value);
  for (const child of children) if (child !== null && child !== false) element.append(child);
  return element;
}

function setProp(element: Element, name: string, value: Value): void {
  if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
  else if (value !== undefined && value !== null && value !== false) {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

export function replaceChildren(element: Element, ...children: readonly Child[]): void {
  element.replaceChildren(
    ...children.filter((child): child is Node | string => child !== null && child !== false),
  );
}

/** Remembers what a view was drawn from: true when something differs from the last call. */
export function changeGuard(): (...parts: readonly unknown[]) => boolean {
  let last: readonly unknown[] | null = null;
  return (...parts) => {
    const same =
      last !== null && parts.length === last.length && parts.every((part, i) => Object.is(part, last?.[i]));
    last = parts;
    return !same;
  };
}
