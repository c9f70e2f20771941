/** Where views get sums from: embedded cubes at once, Python later. */
import { queryKey, rollUp, smallestCube, type Query } from "../model/cube.ts";
import type { Cube, Payload } from "../model/payload.ts";
import type { Answered, Question } from "../protocol.ts";

export interface DataSource {
  /** True while questions can be put to Python. */
  live(): boolean;
  /** An answer at hand, or null. */
  peek(query: Query): Cube | null;
  /**
   * Put a question to Python. A new question in the same slot supersedes the one before, whose
   * promise then never settles.
   */
  ask(slot: string, query: Query): Promise<Cube>;
  /** The same for any question. */
  request(slot: string, question: Question): Promise<Answered>;
  close(): void;
}

const REMEMBERED = 128;

/** Answers that were worked out before, the least recently used forgotten first. */
export interface Memory {
  get(query: Query): Cube | undefined;
  set(query: Query, cube: Cube): void;
}

export function createMemory(limit = REMEMBERED): Memory {
  const known = new Map<string, Cube>();
  const set = (query: Query, cube: Cube) => {
    known.set(queryKey(query), cube);
    const oldest = known.keys().next().value;
    if (known.size > limit && oldest !== undefined) known.delete(oldest);
  };
  const get = (query: Query) => {
    const key = queryKey(query);
    const cube = known.get(key);
    if (cube) {
      known.delete(key);
      known.set(key, cube);
    }
    return cube;
  };
  return { get, set };
}

/** Answers from the cubes in the payload; coarse ones count only where nothing better can come. */
export function answerFromCubes(
  payload: Payload,
  memory: Memory,
  query: Query,
  coarse: boolean,
): Cube | null {
  const known = memory.get(query);
  if (known && (coarse || known.coarse === null)) return known;
  const cubes = query.of === "parts" ? (payload.part_cubes ?? []) : payload.cubes;
  const cube = smallestCube(cubes, query, coarse);
  if (!cube) return null;
  const answer = rollUp(cube, query);
  memory.set(query, answer);
  return answer;
}

/** The source of a static page: what is embedded, and nothing else. */
export function embeddedSource(payload: Payload): DataSource {
  const memory = createMemory();
  const refuse = () => Promise.reject(new Error("needs a running Jupyter kernel"));
  return {
    live: () => false,
    peek: (query) => answerFromCubes(payload, memory, query, true),
    ask: refuse,
    request: refuse,
    close: () => undefined,
  };
}
