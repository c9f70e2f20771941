/** Where the wall time of the whole run goes: parts that add up, busy, idle. */
import { columnFormat, percent } from "../model/format.ts";
import { familyColour } from "../model/colour.ts";
import { instances } from "../model/metrics.ts";
import { perInstance } from "../model/names.ts";
import { time } from "../model/format.ts";
import type { Context, View } from "./context.ts";
import { changeGuard, el, replaceChildren } from "./element.ts";

interface Line {
  readonly name: string;
  readonly title: string;
  readonly ns: number;
  /** Where its bar starts. */
  readonly from: number;
  readonly total: boolean;
}

export function breakdownView(context: Context): View {
  const rows = el("div", {
    class: "cj-breakdown",
    role: "table",
    "aria-label": "Wall time of the whole run",
  });
  const unit = el("p");
  const header = el(
    "header",
    {},
    el("div", { class: "cj-h", role: "heading", "aria-level": 3 }, "Wall time"),
    unit,
  );
  const element = el(
    "section",
    { class: "cj-panel cj-brk", "data-testid": "breakdown", "aria-label": "Wall time" },
    header,
    rows,
  );
  const extra = sideBySide(context);
  if (extra) element.append(el("p", { class: "cj-foot" }, extra));
  const changed = changeGuard();
  return {
    element,
    draw: () => {
      if (!changed(context.theme())) return;
      const lines = linesOf(context);
      const wall = lines[lines.length - 1]?.ns ?? 0;
      const format = columnFormat(
        "ns",
        lines.map(({ ns }) => ns),
      );
      unit.textContent = `whole run, ${format.unit} ${perInstance(context.payload)}`;
      replaceChildren(rows, ...lines.map((line) => lineRow(context, line, wall, format.cell(line.ns))));
    },
  };
}

function linesOf({ payload }: Context): Line[] {
  const each = instances(payload, []);
  const lines: Line[] = [];
  let at = 0;
  const sum = (name: string, title: string) => lines.push({ name, title, ns: at, from: 0, total: true });
  const parts = payload.breakdown.filter(({ name, ns }) => ns > 0 || name === "compute" || name === "idle");
  for (const part of parts) {
    if (part.name === "idle") sum("busy", "Busy");
    lines.push({ name: part.name, title: part.title, ns: part.ns / each, from: at, total: false });
    at += part.ns / each;
  }
  sum("wall", "Wall");
  return lines;
}

function lineRow(context: Context, line: Line, wall: number, value: string): HTMLElement {
  const share = wall > 0 ? (100 * line.ns) / wall : 0;
  const left = wall > 0 ? (100 * line.from) / wall : 0;
  const look = line.total ? "" : fillOf(context, line.name);
  const bar = el("i", {
    class: `bar ${line.name}${line.total ? " total" : ""}`,
    style: `left:${left}%;width:${share}%;${look}`,
  });
  return el(
    "div",
    { class: line.total ? "row total" : "row", role: "row", "data-part": line.name },
    el("span", { role: "rowheader" }, line.title),
    el("b", { role: "presentation" }, bar),
    el("span", { class: "num", role: "cell" }, value),
    el("span", { class: "num dim", role: "cell" }, percent(share)),
  );
}

/** Idle is hatched by the stylesheet, never filled. */
function fillOf({ theme }: Context, name: string): string {
  const family = { compute: "gemm", exposed_communication: "communication", memory: "copy" }[name];
  return family ? `background:${familyColour(theme(), family)}` : "";
}

/** Kernels that run at the same time count once in wall time and each in kernel time. */
function sideBySide({ payload }: Context): string | null {
  const each = instances(payload, []);
  const kernel = payload.totals["time_ns"] ?? 0;
  const double = kernel - (payload.totals["busy_ns"] ?? kernel);
  if (double < 0.0005 * kernel) return null;
  const what = payload.device_kind === "cpu" ? "Operator" : "Kernel";
  return `${what} time is ${time(kernel / each)}: ${time(double / each)} of it ran beside other work.`;
}
