/** Messages between the live widget and Python, over anywidget's custom messages. */
import type { Cube, Filter, Level, OverheadTable } from "./model/payload.ts";
import type { Picture } from "./model/timeline.ts";

/** Sums over levels. */
export interface CubeQuestion {
  readonly kind: "query";
  readonly levels: readonly Level[];
  readonly filters: readonly Filter[];
  /** What is summed, if not the measures. */
  readonly of?: "parts";
}

/** A window of the timeline. */
export interface WindowQuestion {
  readonly kind: "timeline";
  readonly gpus: readonly number[];
  readonly from: number;
  readonly to: number;
  readonly width: number;
  readonly filters: readonly Filter[];
}

/** All about one kernel. */
export interface KernelQuestion {
  readonly kind: "kernel";
  readonly kernel: number;
}

/** From theoretical to actual time of a selection. */
export interface OverheadsQuestion {
  readonly kind: "overheads";
  readonly filters: readonly Filter[];
}

export type Question = CubeQuestion | WindowQuestion | KernelQuestion | OverheadsQuestion;

export interface CancelMessage {
  readonly kind: "cancel";
  readonly id: number;
}

export type Outgoing = (Question & { readonly id: number }) | CancelMessage;

export interface Neighbour {
  readonly id: number;
  readonly label: string;
  readonly start: number;
  readonly end: number;
}

export interface KernelDetails {
  readonly id: number;
  readonly title: string;
  readonly name: string;
  readonly gpu: number;
  readonly start: number;
  readonly end: number;
  /** Start of its launch call, and of the forward call it is the gradient of. */
  readonly launch: number | null;
  readonly forward: number | null;
  readonly rows: readonly (readonly [label: string, value: string])[];
  readonly before: Neighbour | null;
  readonly after: Neighbour | null;
  readonly counters: readonly (readonly [name: string, value: string])[];
}

/** The part that answers the question is there. */
export interface Answered {
  readonly cube?: Cube;
  readonly timeline?: Picture;
  readonly details?: KernelDetails;
  readonly overheads?: OverheadTable;
}

export interface AnswerMessage extends Answered {
  readonly kind: "answer";
  readonly id: number;
}

export interface FailureMessage {
  readonly kind: "failure";
  readonly id: number;
  readonly message: string;
}

export type Incoming = AnswerMessage | FailureMessage;

/** Anything else on the channel is none of our business. */
export function isIncoming(message: unknown): message is Incoming {
  const { kind, id } = (message ?? {}) as Partial<Incoming>;
  return (kind === "answer" || kind === "failure") && typeof id === "number";
}
