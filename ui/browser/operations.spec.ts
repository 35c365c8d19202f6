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
