/** One question per view at a time: an answer at hand now, or a pending one and a call back. */
import type { DataSource } from "../bridge/source.ts";
import { queryKey, type Query } from "../model/cube.ts";
import type { Cube } from "../model/payload.ts";

export interface Answer {
  /** Null while there is none. */
  readonly cube: Cube | null;
  readonly pending: boolean;
  /** What Python said when it could not answer. */
  readonly failure: string | null;
}

export interface Questions {
  answer(slot: string, query: Query): Answer;
}

interface Asked {
  readonly key: string;
  failure: string | null;
}

/** `onAnswer` is called when a pending question has been answered or has failed. */
export function createQuestions(source: DataSource, onAnswer: () => void): Questions {
  const asked = new Map<string, Asked>();

  const ask = (slot: string, query: Query) => {
    const question: Asked = { key: queryKey(query), failure: null };
    asked.set(slot, question);
    source.ask(slot, query).then(onAnswer, (error: unknown) => {
      question.failure = error instanceof Error ? error.message : String(error);
      onAnswer();
    });
  };

  const answer = (slot: string, query: Query): Answer => {
    const cube = source.peek(query);
    if (cube) return { cube, pending: false, failure: null };
    if (!source.live()) return { cube: null, pending: false, failure: null };
    const before = asked.get(slot);
    if (before?.key !== queryKey(query)) ask(slot, query);
    else if (before.failure !== null) return { cube: null, pending: false, failure: before.failure };
    return { cube: null, pending: true, failure: null };
  };

  return { answer };
}
