import { defineConfig } from "@playwright/test";

// The pages run against `weir serve` at WEIR_SERVE_URL, or against the fixture server of these tests.
export default defineConfig({
  testDir: "tests",
  testMatch: "*.spec.ts",
  workers: 1,
  // colours are looked at while machines are busy: a transition that is under way is no failure
  retries: 2,
  // questions of a real process run at low priority, beside whatever else the machine does
  timeout: process.env.WEIR_SERVE_URL ? 180_000 : 120_000,
  expect: { timeout: process.env.WEIR_SERVE_URL ? 60_000 : 30_000 },
  reporter: [["list"]],
  use: {
    viewport: { width: 1280, height: 860 },
    timezoneId: "Europe/Berlin",
    locale: "en-GB",
    launchOptions: { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] },
  },
});
