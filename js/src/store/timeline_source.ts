/** Pictures of the timeline: the best one at hand, and a question to Python for a better one. */
import type { DataSource } from "../bridge/source.ts";
import type { Filter } from "../model/payload.ts";
import { spanOf, type TimeWindow } from "../model/time_window.ts";
import { unpackPicture, type Picture, type TimelineInfo } from "../model/timeline.ts";

export interface PictureView {
  /** Null if nothing is known about these GPUs. */
  readonly picture: Picture | null;
  readonly pending: boolean;
  readonly failure: string | null;
}

export interface PictureWish {
  readonly window: TimeWindow;
  readonly gpus: readonly number[];
  readonly width: number;
  readonly filters: readonly Filter[];
}

export type PictureSource = (wish: PictureWish) => PictureView;

interface Known {
  readonly picture: Picture;
  /** Time per rectangle that can be told apart. */
  readonly grain: number;
  readonly filters: string;
  readonly exact: boolean;
}

const REMEMBERED = 24;
/** What is asked for reaches beyond what is shown, so that a small move needs no new answer. */
const MARGIN = 0.3;
const RECTANGLES_PER_GPU = 400;

/** `onAnswer` is called when a better picture has come, or could not be had. */
export function createPictures(info: TimelineInfo, source: DataSource, onAnswer: () => void): PictureSource {
  const known: Known[] = info.embedded.map((packed) => ({
    picture: unpackPicture(packed),
    grain: (packed.to - packed.from) / RECTANGLES_PER_GPU,
    filters: "",
    exact: false,
  }));
  const embedded = known.length;
  // One question at a time: while it is on its way, newer wishes replace each other here.
  let asked: string | null = null;
  let failed: { readonly key: string; readonly message: string } | null = null;

  const ask = (wish: PictureWish, key: string) => {
    asked = key;
    const { from, to } = widened(wish.window, info);
    const width = Math.round((wish.width * (to - from)) / spanOf(wish.window));
    const message = { kind: "timeline", gpus: wish.gpus, from, to, width, filters: wish.filters } as const;
    source
      .request("timeline", message)
      .then(({ timeline }) => {
        failed = null;
        if (!timeline) return;
        const grain = spanOf(wish.window) / wish.width;
        known.push({ picture: unpackPicture(timeline), grain, filters: keyOf(wish.filters), exact: true });
        if (known.length > embedded + REMEMBERED) known.splice(embedded, 1);
      })
      .catch((error: unknown) => {
        failed = { key, message: error instanceof Error ? error.message : String(error) };
      })
      .finally(() => {
        asked = null;
        onAnswer();
      });
  };

  return (wish) => {
    const best = bestOf(known, wish);
    if (!source.live() || isGood(best, wish))
      return { picture: best?.picture ?? null, pending: false, failure: null };
    const key = JSON.stringify(wish);
    if (failed?.key === key)
      return { picture: best?.picture ?? null, pending: false, failure: failed.message };
    if (asked === null) ask(wish, key);
    return { picture: best?.picture ?? null, pending: true, failure: null };
  };
}

const keyOf = (filters: readonly Filter[]) => JSON.stringify(filters);

function widened({ from, to }: TimeWindow, info: TimelineInfo): TimeWindow {
  const margin = MARGIN * (to - from);
  return {
    from: Math.max(info.from, Math.floor(from - margin)),
    to: Math.min(info.to, Math.ceil(to + margin)),
  };
}

function covers({ picture }: Known, { window, gpus }: PictureWish): boolean {
  const inTime = picture.from <= window.from + 1 && picture.to >= window.to - 1;
  return inTime && gpus.every((gpu) => picture.gpus.includes(gpu));
}

/** The finest that covers all; what marks the selection first. */
function bestOf(known: readonly Known[], wish: PictureWish): Known | null {
  const able = known.filter((one) => covers(one, wish));
  const marked = (one: Known) => Number(one.filters !== keyOf(wish.filters));
  able.sort((a, b) => marked(a) - marked(b) || a.grain - b.grain);
  const finest = able[0];
  // A coarse picture with the marks is worse than a fine one without.
  return able.find((one) => finest && one.grain < finest.grain / 3) ?? finest ?? null;
}

function isGood(best: Known | null, wish: PictureWish): boolean {
  if (!best?.exact || best.filters !== keyOf(wish.filters)) return false;
  return best.grain <= (1.3 * spanOf(wish.window)) / wish.width;
}
