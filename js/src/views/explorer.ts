/** The whole explorer: makes the views, redraws them, and keeps errors inside. */
import type { DataSource } from "../bridge/source.ts";
import { otherTime } from "../model/comparison.ts";
import { availableMetrics } from "../model/metrics.ts";
import { selectionName } from "../model/names.ts";
import type { LabelledFilter, Payload } from "../model/payload.ts";
import { completeOrder, fix, fromLabels } from "../model/selection.ts";
import { nameIn } from "../model/timeline.ts";
import { createDrill, type Drill } from "../store/drill.ts";
import { createParts } from "../store/part_source.ts";
import { createQuestions } from "../store/questions.ts";
import { createSpreads } from "../store/spread_source.ts";
import { createStore, firstState, type Store, type Synced } from "../store/state.ts";
import { createVariation } from "../store/variation_source.ts";
import styles from "../styles/explorer.css";
import { breakdownView } from "./breakdown.ts";
import { chipsView } from "./chips.ts";
import { colourSwitch } from "./colour_switch.ts";
import { hoverKey, type Context, type View } from "./context.ts";
import { crumbView } from "./crumb.ts";
import { el } from "./element.ts";
import { findingsView } from "./findings.ts";
import { footView } from "./foot.ts";
import { headerView } from "./header.ts";
import { heatmapView } from "./heatmap.ts";
import { hintView } from "./hint.ts";
import { icicleView } from "./icicle.ts";
import { fenceKeys } from "./keyboard.ts";
import { textMeasure } from "./measure.ts";
import { overheadsView } from "./overheads.ts";
import { sizeSelect } from "./size_select.ts";
import { tableView } from "./table.ts";
import { timelineView } from "./timeline.ts";
import { unmatchedView } from "./unmatched.ts";
import { applyTheme, watchTheme } from "./theme.ts";
import { createTooltip } from "./tooltip.ts";

export interface ExplorerOptions {
  readonly payload: Payload;
  readonly mode: "live" | "static";
  readonly synced: Partial<Synced>;
  /** `onReach` is to be called when what can be asked has changed. */
  source(onReach: () => void): DataSource;
}

export interface Explorer {
  readonly root: HTMLElement;
  readonly store: Store;
  destroy(): void;
}

export function mountExplorer(host: HTMLElement, options: ExplorerOptions): Explorer {
  const { payload, mode } = options;
  const name = `Explorer of ${payload.title}`;
  const root = el("section", {
    class: "chopper-explorer",
    "data-mode": mode,
    tabindex: -1,
    "aria-label": name,
  });
  const error = el("p", { class: "cj-error", role: "alert", hidden: true, "data-testid": "error" });
  const live = el("div", { class: "cj-vh", "aria-live": "polite", "data-testid": "announcement" });
  const order = completeOrder(payload, options.synced.order ?? []);
  const store = createStore(firstState(payload, { ...options.synced, order }));

  let views: readonly View[] = [];
  const redraw = () => guarded(error, () => drawAll(root, context, views));
  const source = options.source(redraw);
  const context = createContext(payload, store, source, redraw, root, live);
  host.append(root);
  guarded(error, () => {
    applyTheme(root, store.get().synced.theme);
    views = assemble(root, context, createVariation(source, context.questions), redraw);
  });
  root.append(error, live, context.tooltip.element);
  fenceKeys(root, context.up, context.tooltip.hide);
  const stop = [store.subscribe(redraw), watchTheme(redraw), watchWidth(root, redraw), () => source.close()];
  redraw();
  return {
    root,
    store,
    destroy: () => {
      for (const end of stop) end();
      root.remove();
    },
  };
}

function createContext(
  payload: Payload,
  store: Store,
  source: DataSource,
  redraw: () => void,
  root: HTMLElement,
  live: HTMLElement,
): Context {
  const questions = createQuestions(source, redraw);
  const drillAt = createDrill(payload, source, questions);
  const spreadsAt = createSpreads(payload, questions);
  const select: Context["select"] = (selection) => {
    store.setSynced({ selection });
    live.textContent = selectionName(payload, selection);
  };
  return {
    payload,
    metrics: availableMetrics(payload),
    store,
    source,
    questions,
    tooltip: createTooltip(root),
    other: otherTime(payload),
    spreads: () => spreadsAt(drillAt(store.get().synced)),
    theme: () => (root.getAttribute("data-theme") === "dark" ? "dark" : "light"),
    drill: (): Drill => drillAt(store.get().synced),
    select,
    selectNamed: (picture, slice) => {
      const labels = (["phase", "op", "layer"] as const).flatMap((level): LabelledFilter[] => {
        const name = nameIn(picture, level, slice);
        return name === null ? [] : [[level, name]];
      });
      select(fix(store.get().synced.selection, fromLabels(payload, labels)));
    },
    up: () => select(store.get().synced.selection.slice(0, -1)),
    canSelect: (filters) => source.live() || source.peek({ levels: [], filters }) !== null,
    hover: (filter) => markHovered(root, filter ? hoverKey(filter) : null),
    announce: (text) => (live.textContent = text),
    measure: textMeasure(root),
  };
}

/** Left: where the time goes. Right: why. One selection drives both. */
function assemble(
  root: HTMLElement,
  context: Context,
  variation: ReturnType<typeof createVariation>,
  redraw: () => void,
): View[] {
  const header = headerView(context);
  const [chips, colour] = [chipsView(context), colourSwitch(context)];
  const size = sizeSelect(context);
  const hint = hintView();
  const crumb = crumbView(context);
  const [icicle, table] = [icicleView(context), tableView(context)];
  const findings = findingsView(context);
  const breakdown = breakdownView(context, createParts(context.source, context.questions));
  const overheads = overheadsView(context, redraw);
  const heatmap = heatmapView(context, variation);
  const unmatched = unmatchedView(context);
  const foot = footView(context);
  const timeline = timelineView(context);
  root.append(
    el("style", {}, styles),
    header.element,
    el(
      "div",
      { class: "cj-bar" },
      chips.element,
      el("div", { class: "cj-looks" }, size?.element ?? null, colour.element),
    ),
    hint.element,
    crumb.element,
    el(
      "div",
      { class: "cj-grid" },
      el("div", { class: "cj-col" }, icicle.element, timeline?.element ?? null, table.element),
      el(
        "div",
        { class: "cj-col cj-right" },
        findings?.element ?? null,
        breakdown.element,
        overheads?.element ?? null,
        unmatched?.element ?? null,
        heatmap.element,
      ),
    ),
    foot.element,
  );
  const views = [
    header,
    chips,
    size,
    colour,
    hint,
    crumb,
    icicle,
    timeline,
    table,
    findings,
    breakdown,
    overheads,
    unmatched,
    heatmap,
    foot,
  ];
  return views.filter((view): view is View => view !== null);
}

function drawAll(root: HTMLElement, context: Context, views: readonly View[]): void {
  const state = context.store.get();
  applyTheme(root, state.synced.theme);
  // A hidden explorer has no width; it is drawn when it is shown. JupyterLab hides the page for a
  // moment while it changes its theme, too short for a ResizeObserver to see.
  if (root.clientWidth === 0 && typeof ResizeObserver !== "undefined") {
    requestAnimationFrame(() => {
      if (root.clientWidth > 0) drawAll(root, context, views);
    });
    return;
  }
  const focused = document.activeElement;
  const had = root.contains(focused);
  context.tooltip.hide(); // it may speak of what is not there anymore
  for (const view of views) view.draw(state);
  if (had && !root.contains(document.activeElement)) root.focus({ preventScroll: true });
}

/** Errors are shown where they happen; a notebook swallows what is thrown. */
function guarded(error: HTMLElement, action: () => void): void {
  try {
    action();
  } catch (thrown) {
    error.hidden = false;
    error.textContent = `This view failed: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
    console.error(thrown);
  }
}

function markHovered(root: HTMLElement, key: string | null): void {
  for (const old of root.querySelectorAll(".hovered")) {
    if (old.getAttribute("data-key") !== key) old.classList.remove("hovered");
  }
  if (key === null) return;
  for (const each of root.querySelectorAll(`[data-key="${key}"]`)) each.classList.add("hovered");
}

function watchWidth(root: HTMLElement, onChange: () => void): () => void {
  if (typeof ResizeObserver === "undefined") return () => undefined;
  let last = -1;
  const observer = new ResizeObserver(() => {
    if (root.clientWidth === last) return;
    last = root.clientWidth;
    onChange();
  });
  observer.observe(root);
  return () => observer.disconnect();
}
