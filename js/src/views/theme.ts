/** Light or dark: what Python asked for, else the page's theme, else the system's on a plain page. */
import type { Theme } from "../model/colour.ts";

const JUPYTER_PAGE = ".jp-Notebook, .jp-OutputArea, .jp-RenderedHTMLCommon, .nbviewer, #notebook-container";

/** The theme the page itself has around this element. */
export function pageTheme(element: Element): Theme {
  const marked =
    element.parentElement?.closest("[data-jp-theme-light]") ??
    document.querySelector("body[data-jp-theme-light]");
  if (marked) return marked.getAttribute("data-jp-theme-light") === "false" ? "dark" : "light";
  const kind = document.body.getAttribute("data-vscode-theme-kind");
  if (kind) return kind.includes("dark") || kind === "vscode-high-contrast" ? "dark" : "light";
  // Exported notebooks are white whatever the system prefers.
  if (document.querySelector(JUPYTER_PAGE)) return "light";
  return typeof matchMedia === "function" && matchMedia("(prefers-color-scheme: dark)").matches
    ? "dark"
    : "light";
}

/** Calls back when the page or the system changes its theme. Returns the function that ends it. */
export function watchTheme(onChange: () => void): () => void {
  const observer = new MutationObserver(onChange);
  observer.observe(document.body, {
    attributes: true,
    attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind"],
  });
  const system = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : null;
  system?.addEventListener("change", onChange);
  return () => {
    observer.disconnect();
    system?.removeEventListener("change", onChange);
  };
}

/** Sets the attributes the stylesheet goes by; the page's own colours only if they fit the theme. */
export function applyTheme(root: HTMLElement, forced: "" | Theme): Theme {
  const page = pageTheme(root);
  const theme = forced || page;
  root.setAttribute("data-theme", theme);
  root.toggleAttribute("data-own-colours", theme !== page);
  return theme;
}
