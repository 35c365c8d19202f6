// The first page with the examples, as `make run` serves them.

import { EXAMPLES, expect, test } from "./server";

const VISIBLE_MS_MAX = 10_000;

test.use({ workflows: EXAMPLES });

test("a running workflow is visible within ten seconds of opening the page", async ({ page, server }) => {
  await server.runToEnd("diamond");
  await page.goto("/");
  const graph = page.getByRole("group", { name: "Graph of pulse" });

  await expect(graph.getByRole("button", { name: /\brunning\b/ }).first()).toBeVisible({ timeout: VISIBLE_MS_MAX });
  await expect(graph.getByRole("button", { name: /^report\b.*\bcompleted\b/ })).toBeVisible({
    timeout: VISIBLE_MS_MAX,
  });
});

test("a workflow is run with one click and shown in its graph", async ({ page }) => {
  await page.goto("/");
  await page.getByRole("button", { name: "Run workflow" }).click();
  await page.getByRole("button", { name: "Run diamond" }).click();

  await expect(page).toHaveURL(/\/jobs\/\w+/);
  await expect(page.getByRole("button", { name: /^left\b.*\brunning\b/ })).toBeVisible();
  await expect(page.getByRole("button", { name: /^join\b.*\bcompleted\b/ })).toBeVisible();
});
