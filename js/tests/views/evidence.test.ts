// @vitest-environment jsdom
import { expect, test, vi } from "vitest";
import type { DataSource } from "../../src/bridge/source.ts";
import { createPictures } from "../../src/store/timeline_source.ts";
import type { Answered, Question } from "../../src/protocol.ts";
import { packedPicture } from "../picture.ts";
import { all, click, explorer, find, mount, selection, useFreshPage } from "./mounted.ts";

useFreshPage();

const FINDING = {
  title: "GPU 1 is slow",
  detail: "The other waits for it.",
  value: "66 ms",
  evidence: "66 of 100 ms",
  selection: [["gpu", 1]] as ["gpu", number][],
};

test("a finding selects its evidence, and releases it again", () => {
  mount({ findings: [FINDING] });
  click(find("[data-testid=finding]"));
  expect(selection()).toEqual([["gpu", 1]]);
  expect(find("[data-testid=finding]").getAttribute("aria-pressed")).toBe("true");
  expect(find("[data-testid=finding]").title).toBe("66 of 100 ms");
  click(find("[data-testid=finding]"));
  expect(selection()).toEqual([]);
});

test("without findings there is no list", () => {
  mount();
  expect(all("[data-testid=findings]")).toEqual([]);
});

test("what was not recorded is said with the command that records it", () => {
  const missing = [{ name: "counters", title: "No counters", text: "Record them with", command: "do it" }];
  mount({ missing });
  expect(find("[data-testid=missing-counters] code").textContent).toBe("do it");
});

test("the size of the bars changes with the measure", () => {
  mount();
  explorer.store.setSynced({ size: "count" });
  const top = find("[data-testid=icicle-node][data-level='']");
  expect(top.getAttribute("aria-label")).toContain(", 25");
});

test("the first hint goes when something is selected", () => {
  localStorage.clear();
  mount();
  expect(find("[data-testid=first-hint]").hidden).toBe(false);
  explorer.store.setSynced({ selection: [["phase", 0]] });
  expect(find("[data-testid=first-hint]").hidden).toBe(true);
});

const INFO = {
  from: 0,
  to: 1000,
  gpus: [0],
  shown: [0],
  start: [0, 1000] as const,
  iterations: [],
  minimap: [],
  causes: [],
  tracks: [],
  embedded: [packedPicture()],
};

test("one window is asked for at a time; what comes meanwhile waits", async () => {
  const asked: Question[] = [];
  let reply: (answer: Answered) => void = () => undefined;
  const source = {
    live: () => true,
    request: (_: string, question: Question) => {
      asked.push(question);
      return new Promise<Answered>((resolve) => (reply = resolve));
    },
  } as unknown as DataSource;
  const answered = vi.fn();
  const pictures = createPictures(INFO, source, answered);
  const wish = (from: number) => ({ window: { from, to: from + 100 }, gpus: [0], width: 500, filters: [] });
  expect(pictures(wish(0))).toMatchObject({ pending: true });
  expect(pictures(wish(0)).picture).not.toBeNull(); // the embedded one stands in
  pictures(wish(400));
  expect(asked).toHaveLength(1);
  reply({ timeline: packedPicture({ from: 0, to: 130 }) });
  await vi.waitFor(() => expect(answered).toHaveBeenCalled());
  expect(pictures(wish(0)).pending).toBe(false);
  pictures(wish(400));
  expect(asked[1]).toMatchObject({ kind: "timeline", from: 370, to: 530, width: 800 });
});

test("the timeline is mounted with its buttons and its minimap", () => {
  mount({ timeline: INFO });
  expect(find("[data-testid=timeline]").getAttribute("aria-label")).toContain("plus and minus zoom");
  expect(find("[data-testid=minimap]").getAttribute("aria-valuetext")).toContain("of 1.00");
});
