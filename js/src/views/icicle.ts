/** Where the time goes: the icicle of the selection, its keys and its pointer. */
import { layOutIcicle, neighbour, type Bar, type Direction } from "../model/icicle.ts";
import { capital, countOf, levelWord, selectionName, shortNameOf } from "../model/names.ts";
import { fadedBars } from "../model/search.ts";
import { fix } from "../model/selection.ts";
import { NEEDS_KERNEL, type Context, type View } from "./context.ts";
import { changeGuard, el, replaceChildren, svg } from "./element.ts";
import { drawBar, ROW } from "./icicle_bar.ts";
import { legendView } from "./legend.ts";
import { nodeTooltip } from "./node_text.ts";
import { statusView } from "./panel_status.ts";
import { colourScale, type Scale } from "./paint.ts";

const MOST_ROWS = 6;
const FEWEST_ROWS = 5;

export function icicleView(context: Context): View {
  const picture = svg("svg", { role: "tree", "aria-label": "Icicle: where the time goes. Arrow keys move, Enter zooms in, Escape zooms out.", "data-testid": "icicle" });
  const canvas = el("div", { class: "cj-icicle" }, picture);
  const legend = legendView(context);
  const status = statusView();
  const element = el("section", { class: "cj-panel cj-ici", "aria-label": "Where the time goes" }, status.element, canvas, legend.element);
  const changed = changeGuard();
  let bars: Bar[] = [];
  let groups: SVGGElement[] = [];
  let rows = FEWEST_ROWS; // grows, never shrinks: what is below must not jump
  let scale: Scale | null = null;

  const focusOn = (bar: Bar | null | undefined) => {
    const group = groups[bars.indexOf(bar ?? (bars[0] as Bar))];
    if (!group) return;
    for (const other of groups) other.setAttribute("tabindex", "-1");
    group.setAttribute("tabindex", "0");
    group.focus({ preventScroll: true });
  };

  const open = (bar: Bar, byKey: boolean) => {
    if (bar.level === null) context.up();
    else context.select(fix(context.store.get().synced.selection, bar.path));
    if (byKey) focusOn(bars[0]);
  };

  const barAt = (event: Event): Bar | undefined => {
    const group = (event.target as Element).closest("g[role=treeitem]");
    return group ? bars[groups.indexOf(group as SVGGElement)] : undefined;
  };

  const draw = (search: string, colour: string) => {
    const hadFocus = picture.contains(document.activeElement);
    const { tree, selection, levels } = context.drill();
    const width = Math.max(120, canvas.clientWidth || 800);
    bars = layOutIcicle(tree, levels, width, MOST_ROWS);
    rows = Math.max(rows, ...bars.map((bar) => bar.row + 1));
    const faded = fadedBars(context.payload, bars, search);
    scale = scaleOver(context, colour, bars);
    groups = bars.map((bar) => drawBar(context, bar, { selection, scale, faded: faded.has(bar) }));
    groups[0]?.setAttribute("tabindex", "0");
    const height = rows * ROW - 1;
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("style", `height:${height}px`);
    replaceChildren(picture, ...groups, belowText(context, bars));
    if (hadFocus) focusOn(bars[0]);
  };

  canvas.addEventListener("click", (event) => {
    const bar = barAt(event);
    if (bar) open(bar, false);
  });
  canvas.addEventListener("keydown", (event) => onKey(event, barAt(event), bars, open, focusOn));
  canvas.addEventListener("pointermove", (event) => showTooltip(context, event, barAt(event)));
  canvas.addEventListener("pointerleave", () => {
    context.tooltip.hide();
    context.hover(null);
  });

  return {
    element,
    draw: ({ local }) => {
      const { tree, levels, pending, failure } = context.drill();
      status.set(pending, failure);
      if (changed(tree, levels.join(), local.search, local.colour, canvas.clientWidth, context.theme())) {
        draw(local.search, local.colour);
      }
      legend.draw(scale);
    },
  };
}

function scaleOver(context: Context, colour: string, bars: readonly Bar[]): Scale | null {
  const metric = context.metrics.find((candidate) => candidate.name === colour);
  if (!metric) return null;
  const { selection } = context.drill();
  const drawn = bars.filter((bar) => bar.kind === "node" && bar.level !== null);
  return colourScale(context, metric, drawn.map(({ node, path }) => ({ node, filters: [...selection, ...path] })));
}

/** What to say below a selection that cannot be divided further. */
function belowText(context: Context, bars: readonly Bar[]): SVGTextElement | null {
  const text = belowWords(context, bars);
  return text ? svg("text", { x: 8, y: ROW + 17, class: "note" }, text) : null;
}

function belowWords(context: Context, bars: readonly Bar[]): string {
  const { tree, missing, pending, selection } = context.drill();
  if (bars.length === 0) return `No ${context.payload.device_kind === "cpu" ? "operator" : "kernel"} time in this selection.`;
  if (bars.length > 1 || pending || tree.children(tree.root, context.drill().levels)) return "";
  if (missing.length) return `What is below ${selectionName(context.payload, selection)} ${NEEDS_KERNEL}.`;
  return "Nothing below this level. Press Esc to go back.";
}

const DIRECTIONS: Readonly<Record<string, Direction>> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
};

function onKey(
  event: KeyboardEvent,
  bar: Bar | undefined,
  bars: readonly Bar[],
  open: (bar: Bar, byKey: boolean) => void,
  focusOn: (bar: Bar | null) => void,
): void {
  if (!bar || event.ctrlKey || event.metaKey || event.altKey) return;
  const direction = DIRECTIONS[event.key];
  if (direction) focusOn(neighbour(bars, bar, direction) ?? bar);
  else if (event.key === "Home") focusOn(bars[0] ?? null);
  else if (event.key === "Enter" || event.key === " ") open(bar, true);
  else return;
  event.preventDefault();
}

function showTooltip(context: Context, event: PointerEvent, bar: Bar | undefined): void {
  if (!bar) {
    context.tooltip.hide();
    context.hover(null);
    return;
  }
  const { payload } = context;
  const { selection } = context.drill();
  const filters = [...selection, ...bar.path];
  const last = bar.path[bar.path.length - 1];
  const name = last ? shortNameOf(payload, ...last) : selectionName(payload, selection);
  context.hover(bar.kind === "node" && last ? last : null);
  if (bar.kind === "node") {
    const title = last ? `${capital(levelWord(payload, last[0]))}: ${name}` : name;
    context.tooltip.show(event, nodeTooltip(context, title, bar.node.sums, filters, null));
    return;
  }
  const words = bar.level ? countOf(payload, bar.level, bar.count) : "";
  const note = bar.kind === "pooled" ? "Click to spread them out." : "Too narrow to draw one by one.";
  context.tooltip.show(event, { title: `${words} of ${name}`, rows: [], note });
}
