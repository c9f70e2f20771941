/** A small picture of a timeline, as Python sends it. */
import type { Picture } from "../src/model/timeline.ts";

const none = { gpu: [], start: [], dur: [], code: [], count: [] };
const spans = { start: [], dur: [], name: [] };

/** Two lanes; the first has two kernels and five merged ones. Starts are steps. */
export function packedPicture(changes: Partial<Picture> = {}): Picture {
  return {
    from: 0,
    to: 1000,
    gpus: [0],
    lanes: [
      { gpu: 0, kind: "compute", title: "Compute", streams: [7] },
      { gpu: 0, kind: "communication", title: "Communication", streams: [20] },
    ],
    names: {
      phase: [{ label: "forward" }],
      layer: [{ label: "layers.0" }],
      op: [{ label: "mlp.gate" }],
      kernel: [{ label: "void gemm()", short: "gemm" }],
    },
    slices: {
      lane: [0, 0, 0, 1],
      start: [0, 100, 50, -50],
      dur: [90, 40, 30, 200],
      count: [1, 1, 5, 1],
      fill: [100, 100, 60, 100],
      family: [0, 0, 0, 0],
      wait: [10, -2, -2, 5],
      iteration: [0, 0, 0, 0],
      phase: [0, 0, -2, 0],
      layer: [0, -1, -2, 0],
      op: [0, -1, -2, 0],
      kernel: [0, 0, -2, 0],
    },
    gaps: none,
    launches: { ...none, gpu: [0], start: [1], dur: [2], code: [0], count: [1] },
    spans: { iteration: spans, phase: spans, layer: spans },
    tracks: [],
    ...changes,
  };
}
