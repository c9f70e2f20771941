/** A canvas as sharp as the screen, sized in CSS pixels. */

/** Size and clear the canvas; null where there is nothing to draw on (tests without a browser). */
export function canvasPen(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): CanvasRenderingContext2D | null {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  if (typeof CanvasRenderingContext2D === "undefined") return null;
  const pen = canvas.getContext("2d");
  pen?.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen?.clearRect(0, 0, width, height);
  return pen;
}

/** Diagonal lines in one colour. */
export function hatchPattern(pen: CanvasRenderingContext2D, ink: string): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const brush = tile.getContext("2d");
  if (!brush) return ink;
  brush.strokeStyle = ink;
  brush.lineWidth = 1.2;
  brush.beginPath();
  for (const shift of [-6, 0, 6]) {
    brush.moveTo(shift - 1, 7);
    brush.lineTo(shift + 7, -1);
  }
  brush.stroke();
  return pen.createPattern(tile, "repeat") ?? ink;
}
