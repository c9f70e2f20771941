/** Hides the error line that Jupyter shows in place of a live widget whose Jupyter kernel is gone. */

const DEAD = /^Error displaying widget/;

/** Watches only the output right below the static part; shows it again when it is no error anymore. */
export function watchDeadWidget(host: HTMLElement): void {
  const own = host.closest(".jp-OutputArea-child");
  const area = own?.parentElement;
  if (!own || !area) return;
  let hidden: HTMLElement | null = null;
  const show = () => {
    hidden?.style.removeProperty("display");
    hidden = null;
  };
  const look = () => {
    const next = own.nextElementSibling;
    const output = next?.querySelector(".jp-OutputArea-output") ?? next; // beside it stands the prompt
    const dead = next instanceof HTMLElement && DEAD.test(output?.textContent?.trim() ?? "");
    if (hidden && (hidden !== next || !dead)) show();
    if (dead && hidden === null) {
      next.style.display = "none";
      hidden = next;
    }
  };
  const observer = new MutationObserver(look);
  observer.observe(area, { childList: true, subtree: true, characterData: true });
  look();
}
