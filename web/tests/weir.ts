// What every test of the pages has: a server, a page, and a look at what must never happen.
import { test as base, expect, type Page } from "@playwright/test";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Fixture, startFixture } from "./fixture-server.ts";

/** Set when the tests run against a real `weir serve`. */
export const REAL = process.env.WEIR_SERVE_URL;

export interface Weir {
  address: string;
  /** What was asked of the fixture server; empty with a real one. */
  requests: string[];
  lives: () => number;
  open: (hash: string) => Promise<void>;
}

export const test = base.extend<{ weir: Weir }, { fixture: Fixture }>({
  fixture: [
    async ({}, use) => {
      if (REAL) return use({ address: REAL.endsWith("/") ? REAL : `${REAL}/`, requests: [], lives: () => 0, close: async () => undefined });
      const fixture = await startFixture();
      await use(fixture);
      await fixture.close();
    },
    { scope: "worker" },
  ],
  weir: async ({ page, fixture }, use) => {
    const wrong: string[] = [];
    page.on("pageerror", (error) => wrong.push(`error in the page: ${error.message}`));
    page.on("console", (message) => {
      // Refusals by the content security policy are errors of the console.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) wrong.push(message.text());
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(fixture.address) && !request.url().startsWith("blob:")) wrong.push(`request to another host: ${request.url()}`);
    });
    fixture.requests.length = 0;
    await use({
      address: fixture.address,
      requests: fixture.requests,
      lives: fixture.lives,
      open: async (hash) => {
        await page.goto(`${fixture.address}${hash}`);
      },
    });
    expect(wrong, "what the page must not do").toEqual([]);
  },
});

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** WCAG 2.2 level A and AA, by axe. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const runner = (window as unknown as { axe: { run: (where: Document, options: object) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> } }).axe;
    const { violations } = await runner.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] });
    return violations.map((each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.failureSummary}`).join("\n")}`);
  });
  expect(found).toEqual([]);
}

/** Nothing is wider than the window: tables scroll in their own box. */
export async function expectNoSidewaysScroll(page: Page): Promise<void> {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(over, "the page is wider than the window").toBeLessThanOrEqual(0);
}

export { expect };
export type { Page } from "@playwright/test";
