/** Colours of the timeline's canvas, read from the stylesheet once per theme. */
import { familyColour, inkOn, type Theme } from "../model/colour.ts";

export interface Palette {
  readonly bg: string;
  readonly fg: string;
  readonly fg2: string;
  readonly line: string;
  readonly sunk: string;
  readonly neutral: string;
  readonly accent: string;
  readonly accentSoft: string;
  readonly font: string;
  readonly family: (name: string) => string;
  readonly ink: (fill: string) => string;
  /** Ink of the hatch of a cause of idle time. */
  readonly cause: (name: string) => string;
}

const CAUSE_INKS: Readonly<Record<string, string>> = {
  input: "--cj-fast",
  iteration_boundary: "--cj-slow",
  host_sync: "--cj-cause-sync",
  host_late: "--cj-warn",
  communication: "--cj-cause-comm",
  launch_latency: "--cj-cause-launch",
  unknown: "--cj-idle-ink",
};

export function readPalette(root: HTMLElement, theme: Theme): Palette {
  const styles = getComputedStyle(root);
  const of = (name: string) => styles.getPropertyValue(name).trim() || "#888888";
  const inks = new Map<string, string>();
  const ink = (fill: string) => {
    const known = inks.get(fill) ?? inkOn(fill);
    inks.set(fill, known);
    return known;
  };
  return {
    bg: of("--cj-bg"),
    fg: of("--cj-fg"),
    fg2: of("--cj-fg2"),
    line: of("--cj-line"),
    sunk: of("--cj-sunk"),
    neutral: of("--cj-neutral"),
    accent: of("--cj-accent"),
    accentSoft: of("--cj-accent-soft"),
    font: styles.fontFamily || "sans-serif",
    family: (name) => familyColour(theme, name),
    ink,
    cause: (name) => of(causeInk(name)),
  };
}

/** The custom property that a cause's hatch is drawn in. */
export function causeInk(name: string): string {
  return CAUSE_INKS[name] ?? "--cj-idle-ink";
}
