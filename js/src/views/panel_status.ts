/** The corner of a panel's header that says that an answer is on its way, or why there is none. */
import { el } from "./element.ts";

export interface Status {
  readonly element: HTMLElement;
  set(pending: boolean, failure: string | null): void;
}

export function statusView(): Status {
  const element = el("span", { class: "cj-status", role: "status", "data-testid": "status" });
  return {
    element,
    set: (pending, failure) => {
      element.textContent = failure ?? (pending ? "Computing" : "");
      element.hidden = element.textContent === "";
      element.classList.toggle("failed", failure !== null);
    },
  };
}
