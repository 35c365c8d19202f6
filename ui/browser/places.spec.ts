// Workflows, schedules, runs and operations in the browser.

import { expect, test } from "./server";

test("a schedule is paused and goes on", async ({ page, server }) => {
  const paused = async () => (await server.get<{ paused: boolean }>("/schedules/ticking")).paused;
  await page.goto("/schedules/ticking");
  await page.getByRole("button", { name: "Pause ticking" }).click();
  await expect.poll(paused).toBe(true);

  await page.getByRole("button", { name: "Resume ticking" }).click();
  await expect.poll(paused).toBe(false);
  await expect(page.getByRole("button", { name: "Pause ticking" })).toBeVisible();
});

test("a run that is triggered is seen with its lifecycle", async ({ page }) => {
  await page.goto("/schedules/ticking");
  await page.getByRole("button", { name: "Trigger ticking" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Trigger" }).click();

  await page.goto("/runs?workflow=ticking");
  await page.getByRole("row").filter({ hasText: "completed" }).first().getByRole("link").first().click();
  await expect(page.getByText("Lifecycle")).toBeVisible();
  await expect(page.getByText("condition running").first()).toBeVisible();
});

test("a backfill is previewed before it starts anything", async ({ page, server }) => {
  await page.goto("/schedules/ticking");
  await page.getByRole("button", { name: "Backfill" }).click();
  await page.getByRole("button", { name: "Preview" }).click();

  // A day of hourly slots, less those that have a run by now.
  await expect(page.getByText(/^2[2-5] runs would start/)).toBeVisible();
  const { items } = await server.get<{ items: { origin: string }[] }>("/runs?workflow_id=ticking&limit=100");
  expect(items.filter((run) => run.origin === "backfill")).toEqual([]);
});

test("a definition with an error is marked at its line, mended and deployed", async ({ page, server }) => {
  await server.post("/workflows", "workflow_id: edited\nnodes:\n  a: { handler: echo }\n", "application/yaml");
  await page.goto("/editor?id=edited");
  const editor = page.getByLabel("Workflow document");
  await expect(editor).toHaveValue(/workflow_id: edited/);

  await editor.fill(
    "workflow_id: edited\nnodes:\n  a: { handler: echo }\n  b: { handler: echo, dependencies: [gone] }\n",
  );
  await expect(page.getByText(/gone/).first()).toBeVisible();
  await expect(page.getByText(/line 4|4:/i).first()).toBeVisible();
  await expect(page.getByRole("button", { name: "Deploy" })).toBeDisabled();

  await editor.fill("workflow_id: edited\nnodes:\n  a: { handler: echo }\n  b: { handler: echo, dependencies: [a] }\n");
  await page.getByRole("button", { name: "Deploy" }).click();
  await expect(page.getByText("Deployed edited as version 2.")).toBeVisible();
  // It stays while the page reads what it deployed.
  await page.waitForLoadState("networkidle");
  await expect(page.getByText("Deployed edited as version 2.")).toBeVisible();
});

test("two versions differ in readable lines, and an alias is moved between them", async ({ page, server }) => {
  const version = (text: string) =>
    server.post(
      "/workflows",
      `workflow_id: versioned\nnodes:\n  a: { handler: echo, params: { text: ${text} } }\n`,
      "application/yaml",
    );
  await version("one");
  await version("two");
  await page.goto("/workflows/versioned?tab=versions");
  await page.getByRole("link", { name: "What changed in version 2" }).click();
  const lines = page.getByLabel("Difference by lines");
  await expect(lines).toContainText("one");
  await expect(lines).toContainText("two");

  await page.goto("/workflows/versioned?tab=aliases");
  await page.getByRole("button", { name: "New alias" }).click();
  await page.getByLabel("Name").fill("stable");
  await page.getByRole("button", { name: "Create" }).click();
  const alias = page.getByRole("row").filter({ hasText: "stable" });
  await expect(alias).toContainText("Version 2");

  await page.getByRole("button", { name: "Move stable" }).click();
  await page.getByLabel("Version", { exact: true }).selectOption("1");
  await page.getByRole("button", { name: "Move", exact: true }).click();
  await expect(alias).toContainText("Version 1");
});

test("operations tell of workers, shards and what was done", async ({ page, server }) => {
  await server.runToEnd("many", { count: 3 });
  await page.goto("/operations");

  await expect(page.getByRole("row").filter({ hasText: "alive" })).toBeVisible();
  await expect(page.getByText("1 shard")).toBeVisible();
  await expect(page.getByText(/[1-9]\d* submitted/)).toBeVisible();
  await expect(page.locator("canvas").first()).toBeVisible();
});
