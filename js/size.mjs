// Fails when a built bundle is over its budget. Static pages carry static.js once per output.
import { readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const BUDGETS_KB = { "static.js": 60, "widget.js": 150 };

let failed = false;
for (const [name, budget] of Object.entries(BUDGETS_KB)) {
  const bytes = await readFile(new URL(`../chopper_jupyter/static/${name}`, import.meta.url));
  const kb = gzipSync(bytes, { level: 9 }).length / 1000;
  const over = kb > budget;
  failed ||= over;
  console.log(`${name}: ${kb.toFixed(1)} kB gzipped of ${budget}${over ? ", over budget" : ""}`);
}
process.exitCode = failed ? 1 : 0;
