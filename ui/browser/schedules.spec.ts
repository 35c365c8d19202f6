// Schedules and runs.

import { expect, test } from "./server";

test("a schedule is paused and resumed", async ({ page, server }) => {
  const paused = async () => (await server.get<{ paused: boolean }>("/schedules/ticking")).paused;
  await page.goto("/schedules/ticking");
  await page.getByRole("button", { name: "Pause ticking" }).click();
  await expect.poll(paused).toBe(true);

  await page.getByRole("button", { name: "Resume ticking" }).click();
  await expect.poll(paused).toBe(false);
  await expect(page.getByRole("button", { name: "Pause ticking" })).toBeVisible();
});

test("a triggered run shows its lifecycle", async ({ page }) => {
  await page.goto("/schedules/ticking");
  await page.getByRole("button", { name: "Trigger ticking" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Trigger" }).click();

  await page.goto("/runs?workflow=ticking");
  await page.getByRole("row").filter({ hasText: "Completed" }).first().getByRole("link").first().click();
  await expect(page.getByText("Lifecycle")).toBeVisible();
  await expect(page.getByText("Condition running").first()).toBeVisible();
});

test("a backfill is previewed before it starts", async ({ page, server }) => {
  await page.goto("/schedules/ticking");
  await page.getByRole("button", { name: "Backfill" }).click();
  await page.getByRole("button", { name: "Preview" }).click();

  // A day of hourly slots, minus those with a run.
  await expect(page.getByText(/^2[2-5] runs to start/)).toBeVisible();
  const { items } = await server.get<{ items: { origin: string }[] }>("/runs?workflow_id=ticking&limit=100");
  expect(items.filter((run) => run.origin === "backfill")).toEqual([]);
});
