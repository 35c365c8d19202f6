import { execFileSync } from "node:child_process";
import { defineConfig } from "@playwright/test";

const chromium = execFileSync("./chromium", ["--path"], { encoding: "utf8" }).trim();

export default defineConfig({
  testDir: "browser",
  // `npm run screenshots` takes screenshots instead of running the tests.
  testMatch: process.env.SCREENSHOTS ? "screenshots.ts" : "*.spec.ts",
  workers: 1,
  timeout: 90_000,
  // Other tests may run at the same time.
  expect: { timeout: 15_000 },
  forbidOnly: true,
  reporter: "line",
  outputDir: "test-results",
  use: {
    viewport: { width: 1280, height: 800 },
    reducedMotion: "reduce",
    launchOptions: { executablePath: chromium, args: ["--no-sandbox", "--disable-dev-shm-usage"] },
    screenshot: "only-on-failure",
  },
});
