// Jobs: run, cancel, retry, inspect, time travel, compare and search.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, test } from "./server";

/** The card of a node with a status. */
const node = (page: Page, id: string, status: string) =>
  page.getByRole("button", { name: new RegExp(`^${id}\\b.*\\b${status}\\b`) });

test("a workflow is run from its form and completes live", async ({ page }) => {
  await page.goto("/workflows/slow?tab=run");
  await page.getByLabel("seconds").fill("1.5");
  await page.getByLabel("note").fill("from the form");
  await page.getByRole("button", { name: "Run", exact: true }).last().click();

  await expect(page).toHaveURL(/\/jobs\/\w+/);
  await expect(node(page, "sleep", "running")).toBeVisible();
  await expect(node(page, "finish", "pending")).toBeVisible();
  await expect(node(page, "finish", "completed")).toBeVisible();
  await expect(page.getByRole("heading", { level: 1 }).locator("..")).toContainText("Completed");
});

test("a form with an invalid field is not sent", async ({ page, server }) => {
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
  await page.getByRole("button", { name: "Cancel job" }).click();

  await expect(node(page, "sleep", "cancelled")).toBeVisible();
  await expect(page.getByRole("button", { name: "Retry cancelled" })).toBeVisible();
});

test("a failed node is retried after a fix", async ({ page, server }) => {
  const path = join(server.directory, "switch");
  const jobId = await server.runToEnd("breaks", { switch: path });
  await page.goto(`/jobs/${jobId}`);
  await expect(node(page, "check", "failed")).toBeVisible();

  writeFileSync(path, "");
  await page.getByRole("button", { name: "Retry failed" }).click();

  await expect(node(page, "after", "completed")).toBeVisible();
});

test("a finished job shows no states before its events are loaded", async ({ page, server }) => {
  const jobId = await server.runToEnd("slow", { seconds: 0.1 });
  let loadEvents = () => {};
  const isAllowed = new Promise<void>((resolve) => {
    loadEvents = resolve;
  });
  await page.route(/\/events\?/, async (route) => {
    await isAllowed;
    await route.continue();
  });
  await page.goto(`/jobs/${jobId}`);
  await expect(page.getByRole("button", { name: /^prepare\b/ })).toBeVisible();
  expect(await page.getByRole("group", { name: "Graph of slow" }).textContent()).not.toMatch(/pending/i);

  loadEvents();
  await expect(node(page, "prepare", "completed")).toBeVisible();
});

test("the panel of a node shows its params and output", async ({ page, server }) => {
  const jobId = await server.runToEnd("slow", { seconds: 0.1, note: "look here" });
  await page.goto(`/jobs/${jobId}`);
  await node(page, "prepare", "completed").click();

  const panel = page.getByRole("region", { name: "Node prepare" }).or(page.getByLabel("Node prepare"));
  await expect(panel.first()).toContainText("look here");
  await expect(page).toHaveURL(/node=prepare/);

  await page.keyboard.press("Escape");
  await expect(page).not.toHaveURL(/node=prepare/);
});

test("logs have the colors of the output", async ({ page, server }) => {
  const jobId = await server.runToEnd("breaks", { switch: "/missing" });
  await page.goto(`/jobs/${jobId}?tab=logs`);

  await expect(page.getByText("for the switch")).toBeVisible();
  const word = page.getByText("looking", { exact: true });
  const colors = await word.evaluate((element) => [
    getComputedStyle(element).color,
    getComputedStyle(element.parentElement as Element).color,
  ]);
  expect(colors[0]).not.toBe(colors[1]);
});

test("a loop shows its counts and iterations", async ({ page, server }) => {
  const jobId = await server.runToEnd("many", { count: 300 });
  await page.goto(`/jobs/${jobId}?node=each`);

  await expect(page.getByText("300 completed").first()).toBeVisible();
  await page.getByText("Iterations", { exact: true }).click();
  const iteration = page.locator("summary").filter({ hasText: /^7Completed/ });
  await iteration.click();
  await expect(page.getByRole("region", { name: "Output of iteration" }).getByText("number: 7")).toBeVisible();
  await page.getByLabel("Iteration status").selectOption("failed");
  await expect(page.getByText("No matching iterations")).toBeVisible();
});

test("time travel goes back to an event and forward again", async ({ page, server }) => {
  const jobId = await server.runToEnd("slow", { seconds: 0.3 });
  await page.goto(`/jobs/${jobId}`);
  await expect(node(page, "finish", "completed")).toBeVisible();

  await page.getByRole("button", { name: "First event" }).click();
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
  await page.getByRole("button", { name: "Last event" }).click();
  await expect(node(page, "finish", "completed")).toBeVisible();
});

test("two jobs are compared by their first difference", async ({ page, server }) => {
  const left = await server.runToEnd("slow", { seconds: 0.1, note: "left" });
  const right = await server.runToEnd("slow", { seconds: 0.2, note: "right" });
  await page.goto(`/jobs/${left}`);
  await page.getByRole("link", { name: "Compare" }).click();
  await page.getByLabel(`Compare with ${right}`).click();

  await expect(page.getByText("First difference: prepare")).toBeVisible();
});

test("jobs are searched and cancelled in bulk", async ({ page, server }) => {
  const ids = [await server.run("slow", { seconds: 40 }), await server.run("slow", { seconds: 41 })];
  await server.runToEnd("many", { count: 1 });
  await page.goto("/?workflow=slow&status=running");
  for (const id of ids) {
    await page.getByLabel(`Select job ${id}`).check();
  }
  await page.getByRole("button", { name: "Cancel 2" }).click();

  for (const id of ids) {
    await expect.poll(async () => (await server.get<{ status: string }>(`/jobs/${id}`)).status).toBe("cancelled");
  }
  await page.goto("/");
  await page.getByLabel("Search jobs").fill(ids[0] ?? "");
  await expect(page.getByRole("row")).toHaveCount(2);
});
