// What must hold on every page: no serious barrier, nothing wider than a phone, no name that becomes markup.

import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { everyPage } from "./pages";
import { expect, test } from "./server";

const PHONE = { width: 390, height: 844 };

/** What keeps some people from a page. Only the colours differ between the themes. */
async function barriers(page: Page, rules?: string[]): Promise<string[]> {
  // Legacy is a page without frames from elsewhere: the results need no second page to be put together in.
  const axe = new AxeBuilder({ page }).options({ resultTypes: ["violations"] }).setLegacyMode();
  const { violations } = await (rules ? axe.withRules(rules) : axe).analyze();
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id} at ${nodes.map((one) => one.target.join(" ")).join(", ")}`);
}

test("no page has a serious barrier, in light or dark, or is wider than a phone", async ({ page, server }) => {
  test.setTimeout(240_000);
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  const size = page.viewportSize();
  const found: string[] = [];
  for (const [name, path] of await everyPage(server)) {
    await page.goto(path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await page.waitForTimeout(300);
    found.push(...(await barriers(page)).map((one) => `${name}: ${one}`));

    await page.evaluate(() => {
      document.documentElement.dataset.theme = "dark";
    });
    // Colours change slowly.
    await page.waitForTimeout(300);
    found.push(...(await barriers(page, ["color-contrast"])).map((one) => `${name}, dark: ${one}`));

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

test("what people named is shown as text and never run", async ({ page, server }) => {
  const asked: string[] = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.message());
    void dialog.dismiss();
  });
  const markup = "<img/src=x/onerror=alert(9)>";
  const { job_id } = await server.post<{ job_id: string }>("/jobs", {
    workflow_id: "hostile",
    idempotency_key: markup,
  });
  await server.get(`/jobs/${job_id}?wait=30s`);
  for (const path of [
    "/workflows",
    "/workflows/hostile",
    `/jobs/${job_id}?node=shout`,
    `/jobs/${job_id}?node=fall`,
    `/jobs/${job_id}?tab=events`,
    `/jobs/${job_id}?tab=result`,
    `/?search=${encodeURIComponent(markup)}`,
  ]) {
    await page.goto(path);
    await page.waitForTimeout(300);
    await expect(page.locator("img[src=x], script:not([src])")).toHaveCount(0);
  }
  await page.goto(`/jobs/${job_id}?node=shout`);
  await expect(page.getByText("<img src=x onerror=alert(4)>").first()).toBeVisible();
  expect(asked).toEqual([]);
});

test("places are reached by keys alone", async ({ page, server }) => {
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

test("every answer forbids content from elsewhere", async ({ page }) => {
  const elsewhere: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith("http://127.0.0.1") && !request.url().startsWith("data:")) {
      elsewhere.push(request.url());
    }
  });
  const answer = await page.goto("/");
  const policy = answer?.headers()["content-security-policy"] ?? "";

  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toContain("unsafe-inline");
  expect(elsewhere).toEqual([]);
});
