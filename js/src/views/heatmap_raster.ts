/** Very many cells as one image, with a single cell element that moves over it. */
import { diverging } from "../model/colour.ts";
import type { Cell } from "../model/variation.ts";
import type { Context } from "./context.ts";
import { svg } from "./element.ts";

/** Beyond so many cells, one element each would make the page slow. */
export const MOST_CELL_ELEMENTS = 8000;

export interface Raster {
  readonly image: SVGElement;
  /** Position of the cell at a place in the picture; -1 for none. */
  locate(x: number, y: number): number;
}

export interface RasterPlace {
  readonly left: number;
  readonly top: number;
  /** Width of a cell, height of a row. */
  readonly cell: number;
  readonly row: number;
  readonly columns: number;
  readonly rows: number;
  readonly limit: number;
}

/** One pixel per cell, enlarged without smoothing. */
export function drawRaster(
  context: Context,
  place: RasterPlace,
  cellAt: (row: number, column: number) => Cell | undefined,
): Raster {
  const { left, top, cell, row, columns, rows } = place;
  const image = svg("image", {
    x: left,
    y: top,
    width: cell * columns,
    height: row * rows,
    preserveAspectRatio: "none",
    style: "image-rendering:pixelated",
    "aria-hidden": "true",
  });
  const href = paint(context, place, cellAt);
  if (href) image.setAttribute("href", href);
  const locate = (x: number, y: number) => {
    const column = Math.floor((x - left) / cell);
    const line = Math.floor((y - top) / row);
    const inside = column >= 0 && column < columns && line >= 0 && line < rows;
    return inside ? line * columns + column : -1;
  };
  return { image, locate };
}

function paint(
  context: Context,
  { columns, rows, limit }: RasterPlace,
  cellAt: (row: number, column: number) => Cell | undefined,
): string | null {
  if (typeof CanvasRenderingContext2D === "undefined") return null;
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const pen = canvas.getContext("2d");
  if (!pen) return null;
  for (let line = 0; line < rows; line++) {
    for (let column = 0; column < columns; column++) {
      const found = cellAt(line, column);
      if (!found) continue;
      pen.fillStyle = diverging(context.theme(), 0.5 + found.change / limit / 2);
      pen.fillRect(column, line, 1, 1);
    }
  }
  return canvas.toDataURL();
}
