// The operations page.

import { expect, test } from "./server";

test("the operations page shows workers, shards and activity", async ({ page, server }) => {
  await server.runToEnd("many", { count: 3 });
  await page.goto("/operations");

  await expect(page.getByRole("row").filter({ hasText: "Healthy" })).toBeVisible();
  await expect(page.getByText("1 shard")).toBeVisible();
  await expect(page.getByText(/[1-9]\d* submitted/)).toBeVisible();
  await expect(page.locator("canvas").first()).toBeVisible();
});

test("the operations page shows stale workers and why the server is degraded", async ({ page, server }) => {
  const health = await (await page.request.get(`${server.url}/health`)).json();
  const stale = { ...health.workers[0], worker_id: "host:1:dead", alive: false };
  const problem = "1 of 1 shards have no owner, and their jobs do not advance: 0";
  const degraded = { ...health, status: "degraded", problems: [problem], workers: [...health.workers, stale] };
  await page.route("**/health", (route) => route.fulfill({ json: degraded }));
  await page.goto("/operations");

  await expect(page.getByRole("alert")).toContainText(problem);
  await expect(page.getByRole("row").filter({ hasText: "host:1:dead" })).toContainText("Stale");
  await expect(page.getByRole("row").filter({ hasText: "Healthy" })).toBeVisible();
  await expect(page.getByText("1 of 2")).toBeVisible();
});
