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

test("the next slot is shown in the time zone of the schedule", async ({ page }) => {
  await page.goto("/schedules");
  const row = page.getByRole("row").filter({ hasText: "one_at_a_time" });
  // The year is shown unless it is the current one.
  await expect(row).toContainText(/1 Jan (\d{4} )?02:30 America\/New_York/);
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

test("a skipped run has the state of the API and its reason", async ({ page, server }) => {
  const run = async () => (await server.post<{ job_id: string }>("/schedules/one_at_a_time/trigger", {})).job_id;
  await run();
  await run();
  await page.goto("/runs?workflow=one_at_a_time&state=completed");

  await expect(page.getByRole("row").filter({ hasText: "Completed (skipped)" })).toContainText(
    "1 of at most 1 runs are active",
  );
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
