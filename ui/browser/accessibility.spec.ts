// Accessibility of every page: axe rules, phone width and keyboard navigation.

import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { everyPage } from "./pages";
import { expect, test } from "./server";

const PHONE = { width: 390, height: 844 };

/** Serious accessibility violations of a page. */
async function findViolations(page: Page, rules?: string[]): Promise<string[]> {
  // Legacy mode is enough for pages without cross-origin frames, and faster.
  const axe = new AxeBuilder({ page }).options({ resultTypes: ["violations"] }).setLegacyMode();
  const { violations } = await (rules ? axe.withRules(rules) : axe).analyze();
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id} at ${nodes.map(({ target }) => target.join(" ")).join(", ")}`);
}

test("no page has serious violations in light or dark or is wider than a phone", async ({ page, server }) => {
  test.setTimeout(240_000);
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  const size = page.viewportSize();
  const found: string[] = [];
  for (const [name, path] of await everyPage(server)) {
    await page.goto(path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await page.waitForTimeout(300);
    found.push(...(await findViolations(page)).map((violation) => `${name}: ${violation}`));

    // Only colors differ between the themes.
    await page.evaluate(() => {
      document.documentElement.dataset.theme = "dark";
    });
    // Colors have a transition.
    await page.waitForTimeout(300);
    found.push(...(await findViolations(page, ["color-contrast"])).map((violation) => `${name}, dark: ${violation}`));

    await page.setViewportSize(PHONE);
    await page.waitForTimeout(100);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    if (width > PHONE.width) {
      found.push(`${name}: ${width} wide`);
    }
    await page.setViewportSize(size ?? PHONE);
  }
  expect(found).toEqual([]);
});

test("pages are reachable by keyboard", async ({ page, server }) => {
  const jobId = await server.runToEnd("slow", { seconds: 0.1 });
  await page.goto("/");
  await expect(page.getByRole("heading", { name: "Jobs" })).toBeVisible();
  await page.keyboard.press("g");
  await page.keyboard.press("w");
  await expect(page).toHaveURL(/\/workflows$/);
  await page.keyboard.press("/");
  await expect(page.locator("[data-search]")).toBeFocused();

  await page.goto(`/jobs/${jobId}`);
  await page.getByRole("button", { name: /^prepare\b/ }).focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/node=prepare/);
});
