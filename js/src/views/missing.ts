/** What was not recorded: what it would tell, and the command that records it. */
import type { Context } from "./context.ts";
import { el } from "./element.ts";

/** Null where it was recorded. */
export function missingNote({ payload }: Context, name: string): HTMLElement | null {
  const missing = payload.missing?.find((one) => one.name === name);
  if (!missing) return null;
  return el(
    "p",
    { class: "cj-missing", "data-testid": `missing-${name}` },
    el("b", {}, `${missing.title}.`),
    ` ${missing.text} `,
    el("code", {}, missing.command),
  );
}
