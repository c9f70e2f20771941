/** All about the kernel that was clicked in the timeline. */
import { time } from "../model/format.ts";
import { capital, plural, shortKernels } from "../model/names.ts";
import { besideSlice, nameIn, sliceLabel, type Picture } from "../model/timeline.ts";
import type { KernelDetails } from "../protocol.ts";
import type { Context } from "./context.ts";
import { changeGuard, el, replaceChildren } from "./element.ts";
import type { TimelineState } from "./timeline.ts";

export interface KernelPanel {
  readonly element: HTMLElement;
  draw(): void;
  choose(slice: number | null): void;
  /** What Python said about the chosen kernel, once it is there. */
  details(): KernelDetails | null;
}

interface Shown {
  details: KernelDetails | null;
  failure: string;
  /** The picture in which the slice was chosen; its positions mean nothing in another one. */
  picture: Picture | null;
  slice: number | null;
}

export function createKernelPanel(context: Context, state: TimelineState, redraw: () => void): KernelPanel {
  const shown: Shown = { details: null, failure: "", picture: null, slice: null };
  const element = el("div", {
    class: "cj-kernel",
    role: "region",
    "aria-label": "Details of the kernel",
    "data-testid": "kernel",
    hidden: true,
  });
  const changed = changeGuard();
  const ask = (kernel: number) => {
    context.source.request("kernel", { kind: "kernel", kernel }).then(
      ({ details }) => {
        shown.details = details ?? null;
        if (details) context.announce(`${details.title}, ${details.rows[0]?.[1] ?? ""}`);
        redraw();
      },
      (error: unknown) => {
        shown.failure = error instanceof Error ? error.message : String(error);
        redraw();
      },
    );
  };
  const choose = (slice: number | null) => {
    const picture = state.scene?.picture ?? null;
    state.chosen = slice;
    Object.assign(shown, { details: null, failure: "", picture: slice === null ? null : picture, slice });
    if (picture && slice !== null) {
      context.announce(words(context, picture, slice));
      const id = picture.slices.id?.[slice] ?? -1;
      if (id >= 0 && context.source.live()) ask(id);
    }
    redraw();
  };
  const showById = (id: number, start: number) => {
    const { window } = state;
    const span = window.to - window.from;
    if (start < window.from || start > window.to)
      state.window = { from: Math.round(start - span / 2), to: Math.round(start + span / 2) };
    ask(id);
  };
  const draw = () => {
    // In a new picture the same kernel has another place.
    if (shown.picture && state.scene && shown.picture !== state.scene.picture) {
      const id = shown.details?.id ?? shown.picture.slices.id?.[shown.slice ?? -1];
      const at = id === undefined || id < 0 ? -1 : (state.scene.picture.slices.id?.indexOf(id) ?? -1);
      state.chosen = at < 0 ? null : at;
    }
    if (!changed(shown.details, shown.failure, shown.picture, shown.slice)) return;
    element.hidden = shown.picture === null;
    if (!shown.picture || shown.slice === null) return replaceChildren(element);
    const select = () => context.selectNamed(shown.picture as Picture, shown.slice ?? 0);
    const buttons = [button("Select this op", select), button("Close", () => choose(null))];
    const parts = shown.details
      ? fromPython(shown.details, showById)
      : fromPicture(context, shown.picture, shown.slice, choose);
    replaceChildren(element, ...parts, el("footer", {}, ...buttons, el("span", {}, shown.failure)));
  };
  return { element, draw, choose, details: () => shown.details };
}

function button(text: string, onclick: () => void): HTMLButtonElement {
  return el("button", { onclick }, text);
}

function words({ payload }: Context, picture: Picture, slice: number): string {
  const count = picture.slices.count[slice] ?? 1;
  const name = count > 1 ? shortKernels(payload, count) : sliceLabel(picture, slice);
  return `${name}, ${time(picture.slices.dur[slice] ?? 0)}`;
}

function heading(title: string, code: string | null): HTMLElement[] {
  const shown = code && code !== title ? [el("code", {}, code)] : [];
  return [el("b", {}, title), ...shown];
}

function list(rows: readonly (readonly [string, string])[]): HTMLElement {
  const pairs = rows.map(([label, value]) => el("div", {}, el("dt", {}, label), el("dd", {}, value)));
  return el("dl", {}, ...pairs);
}

function fromPython(details: KernelDetails, show: (id: number, start: number) => void): HTMLElement[] {
  const counters = details.counters.length
    ? [el("div", { class: "cj-lab" }, "Counters"), list(details.counters)]
    : [];
  const beside = (
    [
      ["Before", details.before],
      ["After", details.after],
    ] as const
  ).flatMap(([word, one]) =>
    one ? [button(`${word}: ${one.label}, ${time(one.end - one.start)}`, () => show(one.id, one.start))] : [],
  );
  return [
    ...heading(details.title, details.name),
    list(details.rows),
    ...counters,
    el("div", { class: "cj-beside" }, ...beside),
  ];
}

/** What the picture itself tells: all there is without Python. */
function fromPicture(
  context: Context,
  picture: Picture,
  slice: number,
  choose: (slice: number) => void,
): HTMLElement[] {
  const { slices } = picture;
  const count = slices.count[slice] ?? 1;
  const rows: [string, string][] = [["Time", time(slices.dur[slice] ?? 0)]];
  for (const level of ["op", "layer", "phase"] as const) {
    const name = nameIn(picture, level, slice);
    if (name) rows.push([level.charAt(0).toUpperCase() + level.slice(1), name]);
  }
  const wait = slices.wait[slice] ?? -2;
  if (count > 1) rows.push([capital(plural(context.payload, "kernel")), String(count)]);
  else if (wait !== -2) rows.push(["Launch", `${time(wait)} before it started`]);
  const family = context.payload.families[slices.family[slice] ?? -1]?.title;
  if (family) rows.push([count > 1 ? "Mostly" : "Family", family]);
  const beside = (
    [
      ["Before", -1],
      ["After", 1],
    ] as const
  ).flatMap(([word, step]) => {
    const next = besideSlice(picture, slice, step);
    return next === null ? [] : [button(`${word}: ${words(context, picture, next)}`, () => choose(next))];
  });
  const title = count > 1 ? shortKernels(context.payload, count) : sliceLabel(picture, slice);
  return [
    ...heading(title, nameIn(picture, "kernel", slice)),
    list(rows),
    el("div", { class: "cj-beside" }, ...beside),
  ];
}
