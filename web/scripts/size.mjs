// What a browser loads before the first page is there: index.html, what it names, and the page Now with all its static imports.
// Fails over the budget. Run after `npm run build`.
import { existsSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BUDGET_OCTETS = 90_000;
const dist = new URL("../dist/", import.meta.url);
if (!existsSync(new URL(".vite/manifest.json", dist))) {
  console.error("error: there is no build\nhint: npm run build");
  process.exit(2);
}
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", dist), "utf8"));

const files = new Set(["index.html", "theme.js", "weir.svg"]);
const seen = new Set();
function add(key) {
  if (seen.has(key)) return;
  seen.add(key);
  const chunk = manifest[key];
  files.add(chunk.file);
  for (const style of chunk.css ?? []) files.add(style);
  for (const next of chunk.imports ?? []) add(next);
}
add("index.html");
add("src/pages/Now.svelte");

let sum = 0;
const sizes = [...files].map((file) => [file, gzipSync(readFileSync(new URL(file, dist)), { level: 9 }).length]);
for (const [file, octets] of sizes.sort((a, b) => b[1] - a[1])) {
  sum += octets;
  console.log(`${String(octets).padStart(7)}  ${file}`);
}
console.log(`${String(sum).padStart(7)}  first load, gzip -9, of at most ${BUDGET_OCTETS} octets`);
if (sum > BUDGET_OCTETS) {
  console.error("error: the first load is over its budget\nhint: load what the page Now does not need when it is first used");
  process.exit(1);
}
