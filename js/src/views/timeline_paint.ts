/** Paints the timeline: rectangles of kernels, hatched gaps, spans, launches, tracks and the axis. */
import { fitPath, fitText, type Measure } from "../model/fit.ts";
import { time } from "../model/format.ts";
import { sliceLabel, type Marks, type Picture } from "../model/timeline.ts";
import type { TimelineRow } from "../model/timeline_rows.ts";
import { spanOf, ticksOf, type TimeWindow } from "../model/time_window.ts";
import type { Palette } from "./timeline_palette.ts";
import { paintTrack } from "./timeline_track.ts";

export interface Scene {
  readonly pen: CanvasRenderingContext2D;
  readonly picture: Picture;
  readonly rows: readonly TimelineRow[];
  readonly window: TimeWindow;
  readonly origin: number;
  /** Pixels from the left where time starts, and how wide it is. */
  readonly left: number;
  readonly width: number;
  readonly palette: Palette;
  readonly families: readonly string[];
  readonly causes: readonly string[];
  readonly causeTitles: readonly string[];
  readonly measure: Measure;
  /** True for slices that are not of the selection. */
  readonly dimmed: (slice: number) => boolean;
  readonly hatch: (ink: string) => CanvasPattern | string;
}

const LABEL_ROOM = 26;
const GAP_LABEL_ROOM = 110;

export function xOf({ window, left, width }: Scene, at: number): number {
  return left + ((at - window.from) / spanOf(window)) * width;
}

export function paintScene(scene: Scene): void {
  const { pen, rows, left, width } = scene;
  const bottom = rows[rows.length - 1];
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, width, (bottom?.y ?? 0) + (bottom?.height ?? 0));
  pen.clip();
  paintAxis(scene);
  for (const row of rows) {
    if (row.kind === "span") paintSpans(scene, row);
    else if (row.kind === "launches") paintLaunches(scene, row);
    else if (row.kind === "track") paintTrack(scene, row);
  }
  paintGaps(scene);
  paintSlices(scene);
  pen.restore();
  paintLabels(scene);
}

function paintAxis(scene: Scene): void {
  const { pen, rows, window, width, palette, origin } = scene;
  const axis = rows[rows.length - 1];
  const first = rows.find(({ kind }) => kind !== "span");
  if (!axis) return;
  pen.font = `11px ${palette.font}`;
  pen.textAlign = "center";
  for (const { at, label } of ticksOf(window, Math.max(2, Math.floor(width / 110)), origin)) {
    const x = Math.round(xOf(scene, at)) + 0.5;
    pen.strokeStyle = palette.line;
    line(pen, x, first?.y ?? 0, x, axis.y);
    pen.fillStyle = palette.fg2;
    const half = scene.measure(label) / 2;
    pen.fillText(label, Math.min(Math.max(x, scene.left + half), scene.left + width - half), axis.y + 13);
  }
}

function paintSpans(scene: Scene, row: TimelineRow): void {
  const { pen, picture, palette, measure } = scene;
  const { start, dur, name } = picture.spans[row.level ?? "phase"];
  const deep = row.level === "layer";
  for (let i = 0; i < start.length; i++) {
    const x = Math.max(scene.left - 2, xOf(scene, start[i] ?? 0));
    const end = Math.min(scene.left + scene.width + 2, xOf(scene, (start[i] ?? 0) + (dur[i] ?? 0)));
    if (end <= x) continue;
    pen.fillStyle = deep || name[i] !== "backward" ? palette.neutral : palette.accentSoft;
    pen.fillRect(x, row.y, Math.max(1, end - x - 1), row.height);
    const text = row.level === "iteration" ? `iteration ${name[i] ?? ""}` : (name[i] ?? "");
    const room = end - x - 10;
    const fitted =
      room < LABEL_ROOM - 10
        ? ""
        : deep
          ? fitPath(text, room, measure)
          : fitText(text, room, measure, "start");
    if (!fitted) continue;
    pen.fillStyle = palette.fg;
    pen.textAlign = "left";
    pen.fillText(fitted, x + 5, row.y + row.height / 2 + 4);
  }
}

function paintLaunches(scene: Scene, row: TimelineRow): void {
  const { pen, picture, palette } = scene;
  eachMark(scene, picture.launches, row.gpu, (x, end) => {
    pen.fillStyle = palette.fg2;
    pen.fillRect(x, row.y + 2, Math.max(1, end - x), row.height - 4);
  });
}

/** Idle time lies across the compute lane: nothing else ran either. */
function paintGaps(scene: Scene): void {
  const { pen, picture, palette, causes, causeTitles, measure } = scene;
  for (const row of scene.rows) {
    if (row.kind !== "lane" || picture.lanes[row.lane]?.kind !== "compute") continue;
    eachMark(scene, picture.gaps, row.gpu, (x, end, i) => {
      const code = picture.gaps.code[i] ?? -1;
      pen.fillStyle = scene.hatch(palette.cause(causes[code] ?? "unknown"));
      pen.fillRect(x, row.y, end - x, row.height);
      const shown = Math.min(end, scene.left + scene.width) - Math.max(x, scene.left);
      const words = `${causeTitles[code] ?? ""} ${time(picture.gaps.dur[i] ?? 0)}`;
      if (shown < GAP_LABEL_ROOM || measure(words) > shown - 24) return;
      const middle = Math.max(x, scene.left) + shown / 2;
      const half = measure(words) / 2 + 5;
      pen.fillStyle = palette.bg;
      pen.fillRect(middle - half, row.y + 4, 2 * half, row.height - 8);
      pen.fillStyle = palette.fg;
      pen.textAlign = "center";
      pen.fillText(words, middle, row.y + row.height / 2 + 4);
    });
  }
}

function eachMark(
  scene: Scene,
  marks: Marks,
  gpu: number,
  paint: (x: number, end: number, mark: number) => void,
): void {
  for (let i = 0; i < marks.gpu.length; i++) {
    if (marks.gpu[i] !== gpu) continue;
    const x = xOf(scene, marks.start[i] ?? 0);
    const end = xOf(scene, (marks.start[i] ?? 0) + (marks.dur[i] ?? 0));
    if (end >= scene.left && x <= scene.left + scene.width) paint(x, end, i);
  }
}

function paintSlices(scene: Scene): void {
  const { pen, picture, palette, families } = scene;
  const { slices } = picture;
  const rowOfLane = new Map(scene.rows.filter(({ kind }) => kind === "lane").map((row) => [row.lane, row]));
  for (let i = 0; i < slices.lane.length; i++) {
    const row = rowOfLane.get(slices.lane[i] ?? -1);
    if (!row) continue;
    const x = xOf(scene, slices.start[i] ?? 0);
    const end = xOf(scene, (slices.start[i] ?? 0) + (slices.dur[i] ?? 0));
    if (end < scene.left || x > scene.left + scene.width) continue;
    const width = Math.max(1, end - x - (end - x > 3 ? 0.7 : 0));
    const fill = palette.family(families[slices.family[i] ?? 0] ?? "");
    pen.globalAlpha = scene.dimmed(i) ? 0.22 : 1;
    pen.fillStyle = fill;
    const merged = (slices.count[i] ?? 1) > 1;
    // Merged kernels leave gaps: the bar is as high as the time that they fill.
    const part = merged ? Math.max(0.25, (slices.fill[i] ?? 100) / 100) : 1;
    pen.fillRect(x, row.y + row.height * (1 - part), width, row.height * part);
    if (width >= LABEL_ROOM && row.height >= 16 && !scene.dimmed(i)) sliceText(scene, row, i, x, end, fill);
  }
  pen.globalAlpha = 1;
}

function sliceText(
  { pen, picture, palette, measure, left, width }: Scene,
  row: TimelineRow,
  slice: number,
  x: number,
  end: number,
  fill: string,
): void {
  const from = Math.max(x, left);
  const room = Math.min(end, left + width) - from - 10;
  const text = fitPath(sliceLabel(picture, slice), room, measure);
  if (!text || room < LABEL_ROOM - 10) return;
  pen.fillStyle = palette.ink(fill);
  pen.textAlign = "left";
  pen.fillText(text, from + 5, row.y + row.height / 2 + 4);
}

function paintLabels({ pen, rows, palette, left, measure }: Scene): void {
  pen.textAlign = "left";
  for (const row of rows) {
    if (row.heading) {
      pen.font = `600 11px ${palette.font}`;
      pen.fillStyle = palette.fg;
      pen.fillText(row.heading, 0, row.y - 5);
    }
    pen.font = `11px ${palette.font}`;
    pen.fillStyle = palette.fg2;
    const y = row.kind === "track" ? row.y + 12 : row.y + row.height / 2 + 4;
    pen.fillText(fitText(row.label, left - 8, measure, "start"), 0, y);
  }
}

function line(pen: CanvasRenderingContext2D, x: number, y: number, toX: number, toY: number): void {
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(toX, toY);
  pen.stroke();
}
