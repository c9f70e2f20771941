// @vitest-environment jsdom
import { expect, test, vi } from "vitest";
import {
  all,
  click,
  explorer,
  find,
  labels,
  mount,
  node,
  press,
  selection,
  useFreshPage,
} from "./mounted.ts";

useFreshPage();

test("the table lists the parts and sorts by any column", () => {
  mount();
  expect(labels("[data-testid=table-row][data-depth='0']")).toEqual(["backward", "forward", "optimizer"]);
  click(find("[data-sort=name]"));
  expect(labels("[data-testid=table-row][data-depth='0']")).toEqual(["forward", "backward", "optimizer"]);
  expect(find("[data-sort=name]").closest("th")?.getAttribute("aria-sort")).toBe("ascending");
  click(find("[data-sort=idle]"));
  click(find("[data-sort=idle]"));
  expect(explorer.store.get().synced.metric).toBe("idle");
  expect(labels("[data-testid=table-row][data-depth='0']")[0]).toBe("optimizer");
});

test("values are per iteration and GPU", () => {
  mount();
  const cell = (label: string, metric: string) =>
    find(`[data-testid=table-row][data-label="${label}"] [data-metric=${metric}]`).textContent;
  expect(cell("optimizer", "time")).toBe("5.42"); // 5 ms, once 7.5 ms, over 6
  expect(cell("forward", "kernels")).toBe("12");
  expect(cell("forward", "overlap")).toBe("50.0");
});

test("rows zoom by click and by key", () => {
  mount();
  click(find("[data-testid=table-row][data-label=forward]"));
  expect(selection()).toEqual([["phase", 0]]);
  find("[data-testid=table-row][tabindex='0']").focus();
  press("ArrowDown");
  press("Enter");
  expect(selection()[1]?.[0]).toBe("op");
});

test("a search filters the table and fades the icicle", () => {
  mount();
  const search = find("[data-testid=search]") as HTMLInputElement;
  search.value = "sdpa";
  search.dispatchEvent(new Event("input", { bubbles: true }));
  expect(labels("[data-testid=table-row][data-depth='1']")).toEqual(["aten::sdpa", "aten::sdpa"]);
  expect(node("mlp.gate").classList.contains("faded")).toBe(true);
  expect(node("aten::sdpa").classList.contains("faded")).toBe(false);
  search.focus();
  press("Escape");
  expect(search.value).toBe("");
  expect(all(".faded")).toEqual([]);
});

test("columns can be chosen", () => {
  mount();
  (find("[data-testid=columns] [data-metric=idle]") as HTMLInputElement).click();
  expect(all("th [data-sort]").map((button) => button.dataset["sort"])).toEqual([
    "name",
    "time",
    "share",
    "kernels",
    "mean_duration",
    "overlap",
  ]);
});

test("the rows are copied with full names", async () => {
  mount();
  const writeText = vi.fn((_text: string) => Promise.resolve());
  Object.defineProperty(navigator, "clipboard", { value: { writeText }, configurable: true });
  click(find("[data-testid=copy-csv]"));
  await vi.waitFor(() => expect(find("[data-testid=copy-csv]").textContent).toBe("Copied"));
  const lines = writeText.mock.calls[0]?.[0].split("\r\n") ?? [];
  expect(lines[0]).toBe("phase,op,time (ms),share (%),kernels,mean_duration (µs),overlap (%),idle (ms)");
  expect(lines[1]).toMatch(/^backward,,86\.6/);
});
