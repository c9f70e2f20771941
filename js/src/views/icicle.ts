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

interface Shown {
  bars: Bar[];
  /** One group per bar, in the same order. */
  groups: SVGGElement[];
  /** Grows, never shrinks: what is below must not jump. */
  rows: number;
  scale: Scale | null;
}

const ABOUT = "Icicle: where the time goes. Arrow keys move, Enter zooms in, Escape zooms out.";

export function icicleView(context: Context): View {
  const shown: Shown = { bars: [], groups: [], rows: FEWEST_ROWS, scale: null };
  const picture = svg("svg", { role: "tree", "aria-label": ABOUT, "data-testid": "icicle" });
  const canvas = el("div", { class: "cj-icicle" }, picture);
  const legend = legendView(context);
  const status = statusView();
  const changed = changeGuard();
  listen(context, canvas, shown);
  return {
    element: el(
      "section",
      { class: "cj-panel cj-ici", "aria-label": "Where the time goes" },
      status.element,
      canvas,
      legend.element,
    ),
    draw: ({ local }) => {
      const { tree, levels, pending, failure } = context.drill();
      status.set(pending, failure);
      const width = canvas.clientWidth || 800;
      if (changed(tree, levels.join(), local.search, local.colour, width, context.theme())) {
        drawPicture(context, picture, shown, width);
      }
      legend.draw(shown.scale);
    },
  };
}

function drawPicture(context: Context, picture: SVGSVGElement, shown: Shown, width: number): void {
  const hadFocus = picture.contains(document.activeElement);
  const { tree, selection, levels } = context.drill();
  const { search, colour } = context.store.get().local;
  const bars = layOutIcicle(tree, levels, width, MOST_ROWS);
  const faded = fadedBars(context.payload, bars, search);
  const scale = scaleOver(context, colour, bars);
  const drawn = bars.map((bar) => drawBar(context, bar, { selection, scale, faded: faded.has(bar) }));
  const groups = drawn.map(({ group }) => group);
  groups[0]?.setAttribute("tabindex", "0");
  const rows = Math.max(shown.rows, ...bars.map((bar) => bar.row + 1));
  Object.assign(shown, { bars, groups, rows, scale });
  const height = rows * ROW - 1;
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.setAttribute("style", `height:${height}px`);
  const over = drawn.map((each) => each.over);
  replaceChildren(picture, ...groups, ...over, belowText(context, bars));
  if (hadFocus) focusOn(shown, bars[0]);
}

/** Move the focus, and with it the one tab stop. */
function focusOn({ bars, groups }: Shown, bar: Bar | null | undefined): void {
  const group = bar && groups[bars.indexOf(bar)];
  if (!group) return;
  for (const other of groups) other.setAttribute("tabindex", "-1");
  group.setAttribute("tabindex", "0");
  group.focus({ preventScroll: true });
}

function listen(context: Context, canvas: HTMLElement, shown: Shown): void {
  const barAt = (event: Event): Bar | undefined => {
    const group = (event.target as Element).closest<SVGGElement>("g[role=treeitem]");
    return group ? shown.bars[shown.groups.indexOf(group)] : undefined;
  };
  canvas.addEventListener("click", (event) => {
    const bar = barAt(event);
    if (bar) open(context, bar);
  });
  canvas.addEventListener("keydown", (event) => {
    const bar = barAt(event);
    if (!bar || event.ctrlKey || event.metaKey || event.altKey) return;
    const direction = DIRECTIONS[event.key];
    if (direction) focusOn(shown, neighbour(shown.bars, bar, direction));
    else if (event.key === "Home") focusOn(shown, shown.bars[0]);
    else if (event.key === "Enter" || event.key === " ") open(context, bar);
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("pointermove", (event) => showTooltip(context, event, barAt(event)));
  canvas.addEventListener("pointerleave", () => {
    context.tooltip.hide();
    context.hover(null);
  });
}

/** Zoom to a bar; the top bar leads up. */
function open(context: Context, bar: Bar): void {
  if (bar.level === null) context.up();
  else context.select(fix(context.store.get().synced.selection, bar.path));
}

function scaleOver(context: Context, colour: string, bars: readonly Bar[]): Scale | null {
  const metric = context.metrics.find((candidate) => candidate.name === colour);
  if (!metric) return null;
  const { selection } = context.drill();
  const drawn = bars.filter((bar) => bar.kind === "node" && bar.level !== null);
  return colourScale(
    context,
    metric,
    drawn.map(({ node, path }) => ({ node, filters: [...selection, ...path] })),
  );
}

/** What to say below a selection that cannot be divided further. */
function belowText(context: Context, bars: readonly Bar[]): SVGTextElement | null {
  const text = belowWords(context, bars);
  return text ? svg("text", { x: 8, y: ROW + 17, class: "note" }, text) : null;
}

function belowWords(context: Context, bars: readonly Bar[]): string {
  const { tree, missing, pending, selection } = context.drill();
  if (bars.length === 0)
    return `No ${context.payload.device_kind === "cpu" ? "operator" : "kernel"} time in this selection.`;
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
