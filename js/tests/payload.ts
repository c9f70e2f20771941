/** A small recording to test with: every number can be worked out by hand. */
import { gzipSync } from "node:zlib";
import { rollUp } from "../src/model/cube.ts";
import type { Cube, Level, Metric, Payload } from "../src/model/payload.ts";

export const GPUS = 2;
export const ITERATIONS = 3;
export const LAYERS = 4;

type Row = [
  gpu: number,
  iteration: number,
  phase: number,
  layer: number,
  op: number,
  kernel: number,
  ns: number,
];

export const ALL_LEVELS: Level[] = ["gpu", "iteration", "phase", "layer", "op", "kernel"];

/** Ops of a layer: gate (1 kernel of 6 ms), attention (3 ms), copy (1 ms); backward takes twice as long. */
const OPS = [
  { op: 0, kernel: 0, ms: 6 },
  { op: 1, kernel: 1, ms: 3 },
  { op: 2, kernel: 2, ms: 1 },
];

/** GPU 1 is slow in iteration 2 (the last): times 1.5. */
export function rows(): Row[] {
  const all: Row[] = [];
  for (let gpu = 0; gpu < GPUS; gpu++) {
    for (let iteration = 0; iteration < ITERATIONS; iteration++) {
      const slow = gpu === 1 && iteration === 2 ? 1.5 : 1;
      const add = (phase: number, layer: number, op: number, kernel: number, ms: number) =>
        all.push([gpu, iteration, phase, layer, op, kernel, ms * slow * 1e6]);
      for (let layer = 0; layer < LAYERS; layer++) {
        for (const { op, kernel, ms } of OPS) {
          add(0, layer, op, kernel, ms);
          add(1, layer, op, kernel, 2 * ms);
        }
      }
      add(2, -1, 3, 3, 5); // the optimizer has no layer
    }
  }
  return all;
}

export function fullCube(): Cube {
  const all = rows();
  const time = all.map((row) => row[6]);
  return {
    levels: ALL_LEVELS,
    codes: ALL_LEVELS.map((_, i) => all.map((row) => row[i] ?? -1)),
    measures: {
      time_ns: time,
      count: all.map(() => 1),
      overlap_ns: time.map((ns) => ns / 2),
      busy_ns: time,
      idle_ns: all.map(() => 1e5),
    },
    coarse: null,
  };
}

const METRICS: Metric[] = [
  metric("time", "Time", "ms", { time_ns: 1e-6 }, { instances: 1 }),
  metric("share", "Share", "%", { time_ns: 1 }, { total_time_ns: 1 }),
  metric("kernels", "Kernels", "", { count: 1 }, { instances: 1 }),
  metric("mean_duration", "Mean duration", "µs", { time_ns: 1e-3 }, { count: 1 }),
  { ...metric("overlap", "Overlap", "%", { overlap_ns: 1 }, { time_ns: 1 }), needs: "gpu" },
  metric("idle", "Idle", "ms", { idle_ns: 1e-6 }, { instances: 1 }),
];

function metric(
  name: string,
  title: string,
  unit: string,
  numerator: Record<string, number>,
  denominator: Record<string, number>,
): Metric {
  return { name, title, unit, numerator, denominator, meaning: `${title} in words`, needs: null };
}

export function buildPayload(changes: Partial<Payload> = {}): Payload {
  const full = fullCube();
  const cube = (...levels: Level[]) => rollUp(full, { levels, filters: [] });
  const totals = Object.fromEntries(
    Object.entries(full.measures).map(([name, values]) => [name, values.reduce((a, b) => a + b, 0)]),
  );
  const busy = totals["busy_ns"] ?? 0;
  const idle = totals["idle_ns"] ?? 0;
  return {
    version: 1,
    uid: "cj123",
    title: "tiny",
    device_kind: "gpu",
    simulated: false,
    facts: [{ label: "Iteration", value: "125 ms" }],
    quality: { phrase: "Data good: 99 % linked", good: true, lines: ["12 events read", "none skipped"] },
    included: "iterations 2 to 4 (2 warm-up left out)",
    instances: { gpus: GPUS, iterations: ITERATIONS },
    iteration_numbers: [2, 3, 4],
    order: ["phase", "op", "layer", "kernel", "gpu", "iteration"],
    dictionaries: {
      gpu: [
        { label: "GPU 0", value: 0 },
        { label: "GPU 1", value: 1 },
      ],
      iteration: [2, 3, 4].map((value) => ({ label: String(value), value })),
      phase: [{ label: "forward" }, { label: "backward" }, { label: "optimizer" }],
      layer: Array.from({ length: LAYERS }, (_, i) => ({ label: `model.layers.${i}`, short: `layers.${i}` })),
      op: [
        { label: "mlp.gate" },
        { label: "aten::sdpa" },
        { label: "fsdp_copy" },
        { label: "optimizer_step" },
      ],
      kernel: [
        { label: "void gemm_kernel<256>(float*)", short: "gemm 256", family: "gemm" },
        { label: "fmha_fwd", family: "attention" },
        { label: "copy_kernel", family: "copy" },
        { label: "adam_kernel", family: "optimizer" },
      ],
    },
    families: [
      { name: "gemm", title: "GEMM" },
      { name: "attention", title: "Attention" },
      { name: "copy", title: "Copy" },
      { name: "optimizer", title: "Optimizer" },
    ],
    metrics: METRICS,
    cubes: [cube("phase", "op", "layer", "kernel"), cube("gpu", "iteration", "phase", "layer")],
    totals: { ...totals, wall_ns: busy + idle },
    parts: [
      { name: "compute", title: "Compute", idle: false },
      { name: "exposed_communication", title: "Exposed communication", idle: false },
      { name: "memory", title: "Memory", idle: false },
      { name: "host_late", title: "Host late", idle: true },
      { name: "launch_latency", title: "Launch latency", idle: true },
    ],
    part_cubes: [rollUp(partCube(full), { levels: ["phase", "op", "layer"], filters: [] })],
    sizes: [
      { name: "time_ns", title: "Time" },
      { name: "count", title: "Kernels" },
    ],
    breakdown: [
      { name: "compute", title: "Compute", ns: 0.9 * busy },
      { name: "exposed_communication", title: "Exposed communication", ns: 0 },
      { name: "memory", title: "Memory", ns: 0.1 * busy },
      { name: "idle", title: "Idle", ns: idle },
    ],
    ...changes,
  };
}

/** Nine tenths of busy time are compute; idle time is the host's and the launch's in equal parts. */
function partCube(full: Cube): Cube {
  const scaled = (name: string, factor: number) => (full.measures[name] ?? []).map((ns) => factor * ns);
  const measures = {
    compute: scaled("busy_ns", 0.9),
    exposed_communication: scaled("busy_ns", 0),
    memory: scaled("busy_ns", 0.1),
    host_late: scaled("idle_ns", 0.5),
    launch_latency: scaled("idle_ns", 0.5),
  };
  return { ...full, measures };
}

/** As Python sends it. */
export function packed(payload: unknown): string {
  return gzipSync(JSON.stringify(payload)).toString("base64");
}
