/** Messages between the live widget and Python, over anywidget's custom messages. */
import type { Cube, Filter, Level } from "./model/payload.ts";

export interface QueryMessage {
  readonly kind: "query";
  readonly id: number;
  readonly levels: readonly Level[];
  readonly filters: readonly Filter[];
}

export interface CancelMessage {
  readonly kind: "cancel";
  readonly id: number;
}

export type Outgoing = QueryMessage | CancelMessage;

export interface AnswerMessage {
  readonly kind: "answer";
  readonly id: number;
  readonly cube: Cube;
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
