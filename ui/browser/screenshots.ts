// Takes screenshots of every page, in light and dark, on desktop and phone: `make screenshots`. Those in the README are
// written to docs/images, the others to ui/screenshots.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Page } from "@playwright/test";
import { everyPage } from "./pages";
import { expect, type Server, test } from "./server";

const ROOT = resolve(import.meta.dirname, "../..");
const IN_README = new Set(["live-light", "live-dark", "compare-dark", "workflow-statistics-light", "live-light-phone"]);

async function takeScreenshot(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: resolve(ROOT, IN_README.has(name) ? "docs/images" : "ui/screenshots", `${name}.png`) });
}

/** Start a job of the example when no other one runs, because it would be skipped. */
async function runPulse(server: Server): Promise<string> {
  await expect
    .poll(async () => (await server.get<{ items: unknown[] }>("/jobs?workflow_id=pulse&status=running")).items)
    .toEqual([]);
  return server.run("pulse");
}

test("screenshots of every page", async ({ page, server }) => {
  test.setTimeout(400_000);
  const pages = await everyPage(server);
  await server.post("/workflows", readFileSync(resolve(ROOT, "examples/pulse.yaml"), "utf8"), "application/yaml");
  await server.post("/schedules/pulse/pause", {});
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(`/jobs/${await runPulse(server)}?node=pack`);
    await page.waitForTimeout(4_300);
    await takeScreenshot(page, `live-${theme}`);
    for (const [name, path] of pages) {
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.goto(path);
      await page.waitForLoadState("networkidle", { timeout: 3_000 }).catch(() => undefined);
      await page.waitForTimeout(400);
      await takeScreenshot(page, `${name}-${theme}`);
      await page.setViewportSize({ width: 390, height: 844 });
      await page.waitForTimeout(200);
      await takeScreenshot(page, `${name}-${theme}-phone`);
    }
    await page.goto(`/jobs/${await runPulse(server)}`);
    await page.waitForTimeout(4_300);
    await takeScreenshot(page, `live-${theme}-phone`);
  }
});
