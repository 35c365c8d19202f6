// Titles, redirects and pages of things that do not exist.

import { expect, test } from "./server";

test("every page has a title of its own", async ({ page, server }) => {
  const jobId = await server.runToEnd("slow", { seconds: 0.1 });
  for (const [path, title] of [
    ["/", "Jobs · Windlass"],
    [`/jobs/${jobId}`, `slow ${jobId.slice(0, 12)} · Jobs · Windlass`],
    ["/workflows", "Workflows · Windlass"],
    ["/workflows/slow", "slow · Workflows · Windlass"],
    ["/editor", "New workflow · Workflows · Windlass"],
    ["/schedules/ticking", "ticking · Schedules · Windlass"],
    ["/runs", "Runs · Windlass"],
    ["/deliveries", "Deliveries · Windlass"],
    ["/operations", "Operations · Windlass"],
    ["/nothing", "Page not found · Windlass"],
  ] as const) {
    await page.goto(path);
    await expect(page).toHaveTitle(title);
  }
});

test("the navigation shows all pages on a phone and marks the section of the current one", async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto("/deliveries");
  const links = page.getByRole("navigation", { name: "Main" }).getByRole("link");
  await expect(links).toHaveCount(5);
  for (const link of await links.all()) {
    await expect(link).toBeInViewport({ ratio: 1 });
  }
  const color = (name: string) =>
    links.filter({ hasText: name }).evaluate((link) => getComputedStyle(link).backgroundColor);
  expect(await color("Runs")).not.toBe(await color("Jobs"));
});

test("the path of jobs leads to their list", async ({ page }) => {
  await page.goto("/jobs?status=failed");

  await expect(page).toHaveURL(/\/\?status=failed$/);
  await expect(page.getByRole("heading", { name: "Jobs" })).toBeVisible();
});

test("a missing workflow, job, run or schedule has no actions", async ({ page }) => {
  for (const [path, title] of [
    ["/workflows/nope", "Workflow not found"],
    ["/editor?id=nope", "Workflow not found"],
    ["/jobs/nope", "Job not found"],
    ["/runs/nope", "Run not found"],
    ["/schedules/nope", "Schedule not found"],
  ] as const) {
    await page.goto(path);
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(title);
    await expect(page.getByRole("main").getByRole("tab")).toHaveCount(0);
    await expect(page.getByRole("main").getByRole("button")).toHaveCount(0);
  }
});
