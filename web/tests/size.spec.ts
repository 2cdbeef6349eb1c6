// What a browser really loads for the first page.
import { gzipSync } from "node:zlib";
import { expect, test } from "./weir.ts";

const BUDGET_OCTETS = 90_000;

test("the first load is within its budget, and has nothing inline", async ({ page, weir }) => {
  let octets = 0;
  const bodies: Promise<void>[] = [];
  page.on("response", (response) => {
    if (response.url().includes("/api/")) return;
    bodies.push(response.body().then((body) => void (octets += gzipSync(body, { level: 9 }).length)));
  });
  await weir.open("#/now");
  await expect(page.locator("section[aria-labelledby=last5] canvas")).toBeVisible();
  await Promise.all(bodies);
  expect(octets).toBeGreaterThan(20_000);
  expect(octets).toBeLessThanOrEqual(BUDGET_OCTETS);
  const html = await (await page.request.get(weir.address)).text();
  expect(html).not.toMatch(/<style|style=|<script(?![^>]*\bsrc=)/);
});
