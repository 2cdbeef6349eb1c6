// Writes what the tests of tasks look for: `node scripts/plant.mjs FOLDER CAPTURE` makes planted.csv and lossy.pcap in the folder,
// the latter from a capture of `weir generate`.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runnerImport } from "vite";

const [, , folder, capture] = process.argv;
if (folder === undefined || capture === undefined) {
  console.error("usage: node scripts/plant.mjs FOLDER CAPTURE");
  process.exit(2);
}
const { module } = await runnerImport(new URL("../tests/planted.ts", import.meta.url).pathname);
writeFileSync(join(folder, "planted.csv"), module.plantedCsv(Number(process.env.WEIR_PLANTED_AT ?? Date.now())));
writeFileSync(join(folder, "lossy.pcap"), module.thinned(readFileSync(capture), 10));
