/** Colours of the marks and the ink that can be read on them. */

export type Theme = "light" | "dark";

/** Fills per family and theme: distinct in simulated colour blindness, all with a readable ink. */
const FAMILIES: Readonly<Record<Theme, Readonly<Record<string, string>>>> = {
  light: {
    gemm: "#4E6CBE",
    attention: "#C97A2B",
    norm: "#45BF98",
    elementwise: "#E6E3A3",
    communication: "#F5B5DC",
    copy: "#878B8F",
    optimizer: "#C78BDD",
  },
  dark: {
    gemm: "#3D5FB4",
    attention: "#C67F28",
    norm: "#38B5A2",
    elementwise: "#C2BA5C",
    communication: "#93305F",
    copy: "#6C737B",
    optimizer: "#A099EA",
  },
};

const SEQUENTIAL: Readonly<Record<Theme, readonly string[]>> = {
  light: ["#EDF3FA", "#C6DAF0", "#8DB5DF", "#4C87C4", "#17508F"],
  dark: ["#1E2B3A", "#25466A", "#33689F", "#5B98D4", "#B5D8FB"],
};

const DIVERGING: Readonly<Record<Theme, readonly string[]>> = {
  light: ["#1C5FA8", "#8AB4DF", "#EEEFF1", "#EBA97A", "#B4501B"],
  dark: ["#6FAEEF", "#35618F", "#2B3037", "#8C552E", "#F09B5D"],
};

const DARK_INK = "#14171B";
const LIGHT_INK = "#FFFFFF";

export function familyColour(theme: Theme, family: string): string {
  return FAMILIES[theme][family] ?? FAMILIES[theme]["copy"] ?? DARK_INK;
}

/** Low to high, 0 to 1. */
export function sequential(theme: Theme, at: number): string {
  return ramp(SEQUENTIAL[theme], at);
}

/** Faster to slower, 0 to 1; 0.5 is the neutral middle. */
export function diverging(theme: Theme, at: number): string {
  return ramp(DIVERGING[theme], at);
}

export function rampGradient(kind: "sequential" | "diverging", theme: Theme): string {
  const stops = (kind === "sequential" ? SEQUENTIAL : DIVERGING)[theme];
  return `linear-gradient(90deg, ${stops.join(", ")})`;
}

/** Black or white, whichever has the higher contrast on the fill. */
export function inkOn(fill: string): string {
  const luminance = relativeLuminance(fill);
  const onDark = (luminance + 0.05) / (relativeLuminance(DARK_INK) + 0.05);
  return onDark > 1.05 / (luminance + 0.05) ? DARK_INK : LIGHT_INK;
}

export function contrast(a: string, b: string): number {
  const [low = 0, high = 0] = [relativeLuminance(a), relativeLuminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

function ramp(stops: readonly string[], at: number): string {
  const place = Math.min(1, Math.max(0, at)) * (stops.length - 1);
  const index = Math.min(stops.length - 2, Math.floor(place));
  const from = channels(stops[index] ?? DARK_INK);
  const to = channels(stops[index + 1] ?? DARK_INK);
  const mix = from.map((value, i) => Math.round(value + ((to[i] ?? 0) - value) * (place - index)));
  return `#${mix.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

function channels(hex: string): number[] {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function relativeLuminance(hex: string): number {
  const [red = 0, green = 0, blue = 0] = channels(hex).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
