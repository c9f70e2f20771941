/** Marks the chosen and the hovered kernel, and the way from its launch, and from its forward op. */
import type { KernelDetails } from "../protocol.ts";
import type { TimelineState } from "./timeline.ts";
import { xOf, type Scene } from "./timeline_paint.ts";

export function paintFlow(scene: Scene, state: TimelineState, details: KernelDetails | null): void {
  const { pen, left, width } = scene;
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, width, pen.canvas.height);
  pen.clip();
  if (state.hovered !== null) markSlice(scene, state.hovered, scene.palette.fg, true);
  if (details) markDetails(scene, details);
  else if (state.chosen !== null) markSlice(scene, state.chosen, scene.palette.accent, true);
  pen.restore();
}

function markSlice(scene: Scene, slice: number, ink: string, flow: boolean): void {
  const { slices } = scene.picture;
  const start = slices.start[slice] ?? 0;
  const row = scene.rows.find(({ kind, lane }) => kind === "lane" && lane === slices.lane[slice]);
  if (!row) return;
  frame(scene, start, start + (slices.dur[slice] ?? 0), row.y, row.height, ink);
  const wait = slices.wait[slice] ?? -2;
  if (flow && wait !== -2) curve(scene, start - wait, start, row.gpu, row.y + row.height, ink);
}

/** The details know their times, also where the picture has changed since. */
function markDetails(scene: Scene, details: KernelDetails): void {
  const { slices } = scene.picture;
  const at = slices.id?.indexOf(details.id) ?? -1;
  const lane = at >= 0 ? slices.lane[at] : undefined;
  const row = scene.rows.find(
    (one) => one.kind === "lane" && (lane === undefined ? one.gpu === details.gpu : one.lane === lane),
  );
  if (!row) return;
  frame(scene, details.start, details.end, row.y, row.height, scene.palette.accent);
  const bottom = row.y + row.height;
  if (details.launch !== null)
    curve(scene, details.launch, details.start, row.gpu, bottom, scene.palette.accent);
  if (details.forward !== null) {
    scene.pen.setLineDash([4, 3]);
    curve(scene, details.forward, details.start, row.gpu, bottom, scene.palette.fg2);
    scene.pen.setLineDash([]);
  }
}

function frame(scene: Scene, from: number, to: number, y: number, height: number, ink: string): void {
  const x = xOf(scene, from);
  scene.pen.strokeStyle = ink;
  scene.pen.lineWidth = 2;
  scene.pen.strokeRect(x, y + 1, Math.max(2, xOf(scene, to) - x), height - 2);
  scene.pen.lineWidth = 1;
}

/** From the row of CPU launches up to the kernel. */
function curve(scene: Scene, from: number, to: number, gpu: number, y: number, ink: string): void {
  const launches = scene.rows.find((row) => row.kind === "launches" && row.gpu === gpu);
  if (!launches) return;
  const { pen } = scene;
  const [x, end] = [xOf(scene, from), xOf(scene, to)];
  const bottom = launches.y + launches.height / 2;
  pen.strokeStyle = ink;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(x, bottom);
  pen.bezierCurveTo(x + (end - x) / 3, bottom, end - (end - x) / 3, y + 2, end, y - 2);
  pen.stroke();
  pen.beginPath();
  pen.arc(x, bottom, 3, 0, 2 * Math.PI);
  pen.fillStyle = ink;
  pen.fill();
  pen.lineWidth = 1;
}
