// Jobs in the browser: started from a form, watched, cancelled, retried, read, travelled through and compared.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, test } from "./server";

/** The node's card in the graph, by what it says of itself. */
const node = (page: Page, id: string, state: string) =>
  page.getByRole("button", { name: new RegExp(`^${id}\\b.*\\b${state}\\b`) });

test("a workflow is run from its form and seen to finish live", async ({ page }) => {
  await page.goto("/workflows/slow?tab=run");
  await page.getByLabel("seconds").fill("1.5");
  await page.getByLabel("note").fill("from the form");
  await page.getByRole("button", { name: "Run", exact: true }).last().click();

  await expect(page).toHaveURL(/\/jobs\/\w+/);
  await expect(node(page, "sleep", "running")).toBeVisible();
  await expect(node(page, "finish", "pending")).toBeVisible();
  await expect(node(page, "finish", "completed")).toBeVisible();
  await expect(page.getByRole("heading", { level: 1 }).locator("..")).toContainText("completed");
});

test("a form says what is wrong before anything is sent", async ({ page, server }) => {
  const before = await server.get<{ items: unknown[] }>("/jobs?workflow_id=slow&limit=100");
  await page.goto("/workflows/slow?tab=run");
  await page.getByLabel("seconds").fill("99");
  await page.getByRole("button", { name: "Run", exact: true }).last().click();

  await expect(page.getByLabel("seconds")).toHaveAttribute("aria-invalid", "true");
  expect((await server.get<{ items: unknown[] }>("/jobs?workflow_id=slow&limit=100")).items).toHaveLength(
    before.items.length,
  );
});

test("a running job is cancelled", async ({ page, server }) => {
  const jobId = await server.run("slow", { seconds: 50 });
  await page.goto(`/jobs/${jobId}`);
  await expect(node(page, "sleep", "running")).toBeVisible();

  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByLabel("Reason").fill("wrong input");
  await page.getByRole("button", { name: "Cancel the job" }).click();

  await expect(node(page, "sleep", "cancelled")).toBeVisible();
  await expect(page.getByRole("button", { name: "Retry cancelled" })).toBeVisible();
});

test("a failed node is retried once its cause is mended", async ({ page, server }) => {
  const path = join(server.folder, "switch");
  const jobId = await server.runToEnd("breaks", { switch: path });
  await page.goto(`/jobs/${jobId}`);
  await expect(node(page, "check", "failed")).toBeVisible();

  writeFileSync(path, "");
  await page.getByRole("button", { name: "Retry failed" }).click();

  await expect(node(page, "after", "completed")).toBeVisible();
});

test("a node's panel tells its attempts, params and output", async ({ page, server }) => {
  const jobId = await server.runToEnd("slow", { seconds: 0.1, note: "look here" });
  await page.goto(`/jobs/${jobId}`);
  await node(page, "prepare", "completed").click();

  const panel = page.getByRole("region", { name: "Node prepare" }).or(page.getByLabel("Node prepare"));
  await expect(panel.first()).toContainText("look here");
  await expect(page).toHaveURL(/node=prepare/);

  await page.keyboard.press("Escape");
  await expect(page).not.toHaveURL(/node=prepare/);
});

test("logs show what a handler printed, in its colours", async ({ page, server }) => {
  const jobId = await server.runToEnd("breaks", { switch: "/nowhere" });
  await page.goto(`/jobs/${jobId}?tab=logs`);

  await expect(page.getByText("for the switch")).toBeVisible();
  const word = page.getByText("looking", { exact: true });
  const colours = await word.evaluate((found) => [
    getComputedStyle(found).color,
    getComputedStyle(found.parentElement as Element).color,
  ]);
  expect(colours[0]).not.toBe(colours[1]);
});

test("a loop shows its counts and its items", async ({ page, server }) => {
  const jobId = await server.runToEnd("many", { count: 300 });
  await page.goto(`/jobs/${jobId}?node=each`);

  await expect(page.getByText("300 completed").first()).toBeVisible();
  await page.getByText("Items", { exact: true }).click();
  const item = page.locator("summary").filter({ hasText: /^7completed/ });
  await item.click();
  await expect(page.getByRole("region", { name: "Output of item" }).getByText("number: 7")).toBeVisible();
  await page.getByLabel("Items by state").selectOption("failed");
  await expect(page.getByText("No item is in this state.")).toBeVisible();
});

test("time goes back to any event and forward again", async ({ page, server }) => {
  const jobId = await server.runToEnd("slow", { seconds: 0.3 });
  await page.goto(`/jobs/${jobId}`);
  await expect(node(page, "finish", "completed")).toBeVisible();

  await page.getByRole("button", { name: "To the start" }).click();
  await expect(node(page, "prepare", "pending")).toBeVisible();

  const slider = page.getByRole("slider");
  await slider.focus();
  for (let step = 0; step < 12; step++) {
    await page.keyboard.press("]");
  }
  await expect(node(page, "prepare", "completed")).toBeVisible();
  await expect(node(page, "finish", "pending")).toBeVisible();
  await expect(page).toHaveURL(/at=12/);

  await page.reload();
  await expect(node(page, "finish", "pending")).toBeVisible();
  await page.getByRole("button", { name: "To the end" }).click();
  await expect(node(page, "finish", "completed")).toBeVisible();
});

test("two jobs are compared, and their first difference is told", async ({ page, server }) => {
  const left = await server.runToEnd("slow", { seconds: 0.1, note: "left" });
  const right = await server.runToEnd("slow", { seconds: 0.2, note: "right" });
  await page.goto(`/jobs/${left}`);
  await page.getByRole("link", { name: "Compare" }).click();
  await page.getByLabel(`Compare with ${right}`).click();

  await expect(page.getByText("The first difference: prepare")).toBeVisible();
});

test("jobs are found, and many are cancelled at once", async ({ page, server }) => {
  const ids = [await server.run("slow", { seconds: 40 }), await server.run("slow", { seconds: 41 })];
  await server.runToEnd("many", { count: 1 });
  await page.goto("/?workflow=slow&status=running");
  for (const id of ids) {
    await page.getByLabel(`Pick job ${id}`).check();
  }
  await page.getByRole("button", { name: "Cancel 2" }).click();

  for (const id of ids) {
    await expect.poll(async () => (await server.get<{ status: string }>(`/jobs/${id}`)).status).toBe("cancelled");
  }
  await page.goto("/");
  await page.getByLabel("Search jobs").fill(ids[0] ?? "");
  await expect(page.getByRole("row")).toHaveCount(2);
});
