/** Paints a sampled metric as steps; all GPUs have one scale, so that they can be compared. */
import { significant, withUnit } from "../model/format.ts";
import type { TimelineRow } from "../model/timeline_rows.ts";
import { xOf, type Scene } from "./timeline_paint.ts";

/** Room above the highest value. */
const HEAD = 1.08;

export function paintTrack(scene: Scene, row: TimelineRow): void {
  const { pen, palette, picture } = scene;
  const { scale } = row;
  const track = picture.tracks.find(({ gpu, metric }) => gpu === row.gpu && metric === scale?.metric);
  if (!scale || !track?.time.length) return;
  const bottom = row.y + row.height;
  const yOf = (value: number) => bottom - (value / (scale.highest * HEAD)) * row.height;
  pen.beginPath();
  pen.moveTo(xOf(scene, track.time[0] ?? 0), bottom);
  // A sensor's value stands until its next one.
  let last = bottom;
  for (let i = 0; i < track.time.length; i++) {
    const x = xOf(scene, track.time[i] ?? 0);
    pen.lineTo(x, last);
    last = yOf(track.value[i] ?? 0);
    pen.lineTo(x, last);
  }
  pen.lineTo(scene.left + scene.width, last);
  pen.lineTo(scene.left + scene.width, bottom);
  pen.fillStyle = palette.accentSoft;
  pen.fill();
  pen.strokeStyle = palette.accent;
  pen.lineWidth = 1.2;
  pen.stroke();
  pen.lineWidth = 1;
  const top = Math.round(yOf(scale.highest)) + 0.5;
  pen.strokeStyle = palette.line;
  pen.setLineDash([2, 2]);
  pen.beginPath();
  pen.moveTo(scene.left, top);
  pen.lineTo(scene.left + scene.width, top);
  pen.stroke();
  pen.setLineDash([]);
  const words = `highest ${withUnit(significant(scale.highest, 4), scale.unit)}`;
  pen.textAlign = "right";
  const half = scene.measure(words);
  pen.fillStyle = palette.bg;
  pen.globalAlpha = 0.8;
  pen.fillRect(scene.left + scene.width - half - 6, top + 2, half + 6, 13);
  pen.globalAlpha = 1;
  pen.fillStyle = palette.fg2;
  pen.fillText(words, scene.left + scene.width - 3, top + 12);
}
