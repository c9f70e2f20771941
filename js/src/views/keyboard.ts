/** Keys of the whole explorer, and the fence that keeps them from the notebook around it. */

/** Jupyter acts on plain keys (`b` inserts a cell); browser and Jupyter keep Ctrl and Cmd. */
export function fenceKeys(root: HTMLElement, up: () => void, onKey: () => void): void {
  root.addEventListener("keydown", (event) => {
    onKey();
    if (isPlain(event) && !event.defaultPrevented && goesUp(event)) {
      event.preventDefault();
      up();
    }
    fence(event);
  });
  root.addEventListener("keypress", fence);
  root.addEventListener("keyup", fence);
}

function fence(event: KeyboardEvent): void {
  if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
}

function isPlain(event: KeyboardEvent): boolean {
  return !event.ctrlKey && !event.metaKey && !event.altKey;
}

function goesUp({ key, target }: KeyboardEvent): boolean {
  const typing = target instanceof HTMLInputElement && target.type === "search";
  return key === "Escape" || (key === "Backspace" && !typing);
}
