/** A breakdown from theoretical to actual time: what is known, what is not, and what does not apply. */
import type { Overheads, OverheadTable } from "../src/model/payload.ts";

const PARTS = ["theoretical", "instruction", "overlap", "waiting", "unexplained", "not_modelled"];
const title = (name: string) => name.charAt(0).toUpperCase() + name.slice(1).replace("_", " ");

export const WHOLE: OverheadTable = {
  levels: [],
  codes: [],
  actual: [600e6],
  ns: {
    theoretical: [300e6],
    instruction: [360e6],
    overlap: [null],
    waiting: [null],
    unexplained: [-60e6],
    not_modelled: [0],
  },
  half: { instruction: [6e6], overlap: [null], unexplained: [6e6] },
  why: {
    theoretical: [-1],
    instruction: [-1],
    overlap: [0],
    waiting: [-2],
    unexplained: [-1],
    not_modelled: [-1],
  },
};

/** The same row twice as long, of phase 1. */
export const BACKWARD: OverheadTable = {
  ...WHOLE,
  levels: ["phase"],
  codes: [[1]],
  actual: [1200e6],
};

export const OVERHEADS: Overheads = {
  parts: PARTS.map((name) => ({ name, title: title(name), meaning: `${name} in words` })),
  reasons: ["overlap not identifiable: too few instances"],
  tables: [WHOLE, BACKWARD],
};
