// Builds both bundles from one source: an ES module for the live widget, a classic script for
// static pages. `--watch` rebuilds on change.
import { fileURLToPath } from "node:url";
import { build, context } from "esbuild";

const TARGET = ["chrome111", "firefox115", "safari16.4"];
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** A stylesheet becomes text: it travels inside the script, nesting lowered for older browsers. */
const cssAsText = {
  name: "css-as-text",
  setup(builder) {
    builder.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const options = { bundle: true, write: false, minify: true, target: TARGET };
      const { outputFiles } = await build({ entryPoints: [path], ...options });
      return { contents: outputFiles[0].text, loader: "text" };
    });
  },
};

const shared = {
  bundle: true,
  minify: true,
  target: TARGET,
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  plugins: [cssAsText],
};

const bundles = [
  {
    entryPoints: [here("src/widget.ts")],
    outfile: here("../chopper_jupyter/static/widget.js"),
    format: "esm",
  },
  {
    entryPoints: [here("src/static.ts")],
    outfile: here("../chopper_jupyter/static/static.js"),
    format: "iife",
    globalName: "ChopperStatic",
  },
].map((bundle) => ({ ...shared, ...bundle }));

if (process.argv.includes("--watch")) {
  for (const options of bundles) await (await context(options)).watch();
} else {
  await Promise.all(bundles.map((options) => build(options)));
}
