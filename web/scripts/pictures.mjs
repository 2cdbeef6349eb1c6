// Takes the pictures of docs/images from a running `weir serve`: `WEIR_SERVE_URL=http://127.0.0.1:2080/ node scripts/pictures.mjs`.
// With planted flows (scripts/plant.mjs) they show the incident of the guide. pngquant makes them small, where it is installed.
import { execFileSync } from "node:child_process";
import { statSync } from "node:fs";
import { chromium } from "@playwright/test";

const OCTETS_MAX = 100_000;
const DAY_MS = 86_400_000;
const at = Math.floor(Date.now() / DAY_MS) * DAY_MS - DAY_MS + 14 * 3_600_000;
const text = (ms) => `${new Date(ms).toISOString().slice(0, 19)}Z`;
const around = `from=${text(at - 3_600_000)}&until=${text(at + 3_600_000)}`;

const PICTURES = [
  { name: "now", hash: "#/now", wait: 8000 },
  { name: "explore", hash: `#/explore?filter=router+ip+198.51.100.1&${around}&by=src_addr`, wait: 1500 },
  { name: "interface", hash: `#/interface/198.51.100.1/7?${around}&via=exporter/198.51.100.1`, wait: 1500 },
  { name: "exporters", hash: "#/exporters?from=-3650d", wait: 1000, click: "section[aria-label=exporters] .name" },
  { name: "watch", hash: "#/watches/portscan", wait: 6000, click: "button:has-text('Backtest')" },
];

const url = process.env.WEIR_SERVE_URL ?? "http://127.0.0.1:2080/";
const folder = new URL("../../docs/images/", import.meta.url).pathname;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1180, height: 800 }, colorScheme: "light", timezoneId: "UTC", locale: "en-GB" });
const page = await context.newPage();
for (const { name, hash, wait, click } of PICTURES) {
  const file = `${folder}${name}.png`;
  await page.goto("about:blank");
  await page.goto(url + hash);
  await page.locator("h1").waitFor();
  if (click) await page.locator(click).first().click();
  // What is asked is answered, as far as it is seen.
  await page.waitForTimeout(wait);
  await page.waitForFunction(() => !document.querySelector(".panel.old, progress") && ![...document.querySelectorAll(".empty .title")].some((each) => each.textContent === "Asking" && each.getBoundingClientRect().top < innerHeight), undefined, { timeout: 90_000 }).catch(() => console.warn("warning: something was not answered"));
  if (name === "watch") await page.locator("section[aria-label=backtest]").scrollIntoViewIfNeeded();
  await page.screenshot({ path: file });
  try {
    execFileSync("pngquant", ["--force", "--output", file, "--speed", "1", "64", file]);
  } catch {
    console.warn("warning: pngquant is not installed: the picture stays as it is");
  }
  const octets = statSync(file).size;
  console.log(`${String(octets).padStart(7)}  ${file}`);
  if (octets > OCTETS_MAX) console.warn(`warning: ${name}.png has over ${OCTETS_MAX} octets`);
}
await browser.close();
