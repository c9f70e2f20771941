/** Draws one bar of the icicle. */
import { inkOn, type Theme } from "../model/colour.ts";
import { fitPath, fitText } from "../model/fit.ts";
import type { Bar } from "../model/icicle.ts";
import { countOf, everything, nameOf, selectionName, shortNameOf } from "../model/names.ts";
import type { Filter } from "../model/payload.ts";
import { hoverKey, type Context } from "./context.ts";
import { svg } from "./element.ts";
import { nodeLabel, sizeText } from "./node_text.ts";
import { composition, ownColour, type Scale } from "./paint.ts";

export const ROW = 26;
const HEIGHT = ROW - 1;
const STRIP = 4;
const SMALL = 44;
/** Under this width, names are given more of it. */
const NARROW = 80;
/** Before how many there are, where there is no room for the word. */
const TIMES = "\u00d7\u202f";
const NEUTRAL = "var(--cj-neutral)";

interface Look {
  readonly fill: string;
  readonly ink: string;
  readonly mixed: boolean;
  readonly faint: boolean;
}

export interface BarStyle {
  readonly selection: readonly Filter[];
  readonly scale: Scale | null;
  readonly faded: boolean;
}

export interface DrawnBar {
  readonly group: SVGGElement;
  /** A shortened name lies over the bar, not in it: what names an element has to be whole. */
  readonly over: SVGElement | null;
}

export function drawBar(context: Context, bar: Bar, style: BarStyle): DrawnBar {
  const look = lookOf(context, bar, style);
  const gap = bar.width > 4 ? 1 : bar.width > 2 ? 0.5 : 0;
  const width = Math.max(0.5, bar.width - gap);
  const y = bar.row * ROW;
  const box = { x: bar.x, y, width, height: HEIGHT, rx: bar.width > 8 ? 2 : 0 };
  const group = svg("g", {
    ...attributes(context, bar, style),
    class: `cj-bar-${bar.kind}${style.faded ? " faded" : ""}`,
  });
  group.append(svg("rect", { ...box, fill: look.fill, "fill-opacity": look.faint ? 0.4 : 1 }));
  if (look.mixed) group.append(...strip(context, bar, width));
  const { texts, whole } = label(context, bar, style, look, width);
  // The space between is read, not drawn: name and time are two words.
  if (whole) for (const text of texts) group.append(text, " ");
  group.append(svg("rect", { ...ring(box), class: "ring" }));
  const hidden = { "aria-hidden": "true", class: style.faded ? "faded" : "" };
  return { group, over: whole || texts.length === 0 ? null : svg("g", hidden, ...texts) };
}

/** The outline for hover and focus lies inside the bar, so that it is never cut off. */
function ring(box: { x: number; y: number; width: number; height: number; rx: number }) {
  return {
    x: box.x + 1,
    y: box.y + 1,
    width: Math.max(0.5, box.width - 2),
    height: box.height - 2,
    rx: box.rx,
  };
}

function attributes(context: Context, bar: Bar, { selection }: BarStyle): Record<string, string | number> {
  const filters = [...selection, ...bar.path];
  const last = bar.path[bar.path.length - 1];
  const shared = { tabindex: -1, role: "treeitem", "aria-level": bar.row + 1 };
  if (bar.kind !== "node") {
    const words = bar.level ? countOf(context.payload, bar.level, bar.count) : "";
    return {
      ...shared,
      "data-testid": `icicle-${bar.kind}`,
      "data-level": bar.level ?? "",
      "aria-label": words,
    };
  }
  const name = last ? nameOf(context.payload, ...last) : selectionName(context.payload, selection);
  return {
    ...shared,
    "data-testid": "icicle-node",
    "data-level": bar.level ?? "",
    "data-label": name,
    "aria-label": last
      ? nodeLabel(context, filters, bar.node.sums)
      : `${name}, ${timeText(context, bar, filters)}`,
    ...(last ? { "data-key": hoverKey(last) } : {}),
  };
}

function lookOf(context: Context, bar: Bar, { selection, scale }: BarStyle): Look {
  const theme = context.theme();
  const neutral = { fill: NEUTRAL, ink: "var(--cj-fg)", mixed: false, faint: false };
  if (bar.level === null) return { ...neutral, mixed: scale === null && hasParts(context, bar) };
  if (scale) {
    const shade = bar.kind === "slivers" ? null : scale.fill(bar.node.sums, [...selection, ...bar.path]);
    return shade ? { ...neutral, ...shade, ...faintIf(bar) } : neutral;
  }
  const own = inheritedColour(context, theme, bar);
  if (own && bar.kind === "node") return { fill: own, ink: inkOn(own), mixed: false, faint: false };
  if (own) return { ...neutral, fill: own, ...faintIf(bar) };
  return { ...neutral, mixed: bar.kind === "node" && hasParts(context, bar) };
}

/** Pale bars are read in the colour of the page's text. */
const faintIf = (bar: Bar) => (bar.kind === "node" ? {} : { faint: true, ink: "var(--cj-fg)" });

/** Where kernels are unknown, a node has the colour of the nearest node above that knows its own. */
function inheritedColour({ payload }: Context, theme: Theme, bar: Bar): string | null {
  for (let at: Bar | null = bar; at; at = at.parent)
    if (at.node.families) return ownColour(payload, theme, at.node);
  return null;
}

function hasParts({ payload }: Context, bar: Bar): boolean {
  return payload.families.length > 0 && bar.node.families !== null;
}

function strip(context: Context, bar: Bar, width: number): SVGRectElement[] {
  let x = bar.x;
  const y = bar.row * ROW + HEIGHT - STRIP;
  return composition(context.payload, context.theme(), bar.node).map(({ share, fill }) => {
    const part = svg("rect", { x, y, width: share * width, height: STRIP, fill });
    x += share * width;
    return part;
  });
}

function timeText(context: Context, bar: Bar, filters: readonly Filter[]): string {
  return sizeText(context, bar.node, filters);
}

interface Label {
  readonly texts: readonly SVGTextElement[];
  /** True if the name was not shortened. */
  readonly whole: boolean;
}

function label(context: Context, bar: Bar, style: BarStyle, look: Look, width: number): Label {
  if (bar.width < 14 || bar.kind === "slivers") return { texts: [], whole: true };
  const small = bar.width < SMALL;
  const heavy = bar.row <= 1 && bar.kind === "node" && look.fill === NEUTRAL ? 600 : 400;
  const measure = context.measure(small || bar.kind === "pooled" ? 11 : 12, heavy);
  const edge = small ? 2 : bar.width < NARROW ? 4 : 8;
  const room = width - 2 * edge;
  const [full, fitted] = names(context, bar, style, (text) => measure(text), room);
  if (!fitted) return { texts: [], whole: true };
  const y = bar.row * ROW + (look.mixed ? 15 : 17);
  const size = small || bar.kind === "pooled" ? 11 : 12;
  const place = small ? { x: bar.x + width / 2, "text-anchor": "middle" } : { x: bar.x + edge };
  const paint = `fill:${look.ink};font-size:${size}px;font-weight:${heavy}`;
  const texts = [svg("text", { ...place, y, style: paint }, fitted)];
  if (bar.kind === "node" && fitted === full && !small) {
    const value = timeText(context, bar, [...style.selection, ...bar.path]);
    if (measure(full) + context.measure(11)(value) + 24 < room) {
      const at = { x: bar.x + width - 8, y, "text-anchor": "end", class: "value" };
      texts.push(svg("text", { ...at, style: `fill:${look.ink};font-size:11px` }, value));
    }
  }
  const named = bar.path[bar.path.length - 1];
  const name = named ? nameOf(context.payload, ...named) : full;
  return { texts, whole: bar.kind !== "node" || holdsWords(name, fitted) };
}

/** True if a name holds a text as words of its own: "sum" is in "sum (2)", not in "sum_2". */
function holdsWords(name: string, text: string): boolean {
  const at = name.indexOf(text);
  const beside = [name[at - 1], name[at + text.length]];
  return at >= 0 && beside.every((letter) => letter === undefined || !/[\p{L}\p{N}_]/u.test(letter));
}

function names(
  context: Context,
  bar: Bar,
  { selection }: BarStyle,
  measure: (text: string) => number,
  room: number,
): [full: string, fitted: string] {
  const { payload } = context;
  if (bar.kind === "pooled") {
    const text = bar.level ? countOf(payload, bar.level, bar.count) : "";
    const fitting = [text, `${TIMES}${bar.count}`].find((words) => measure(words) <= room);
    return [text, fitting ?? ""];
  }
  const last = bar.path[bar.path.length - 1];
  if (!last) {
    const text = selection.length ? selectionName(payload, selection) : everything(payload);
    return [text, fitText(text, room, measure, "start")];
  }
  const text = shortNameOf(payload, ...last);
  if (last[0] === "op" || last[0] === "layer") return [text, fitPath(text, room, measure)];
  if (last[0] === "gpu" || last[0] === "iteration") return [text, fitNumbered(text, room, measure)];
  return [text, fitText(text, room, measure, last[0] === "kernel" ? "end" : "start")];
}

/** "GPU 3" becomes "3" where there is no room for the word; position and tooltip say the rest. */
function fitNumbered(text: string, room: number, measure: (text: string) => number): string {
  if (measure(text) <= room) return text;
  const number = /\d+$/.exec(text)?.[0] ?? "";
  return measure(number) <= room ? number : "";
}
