// What a completed job left undone: failures that it tolerated, and pages that it did not read.

import { expect, test } from "./server";

test("a job that completed with failures says so, and its failed iterations are retried alone", async ({
  page,
  server,
}) => {
  const jobId = await server.runToEnd("tolerant");
  await page.goto(`/jobs/${jobId}?node=each`);
  const header = page.getByRole("heading", { level: 1 });
  await expect(header).toContainText("Completed with 2 failures");
  const panel = page.getByRole("complementary", { name: "Node each" });
  await expect(panel).toContainText("1 failed");

  await panel.getByRole("button", { name: "Retry failed iterations" }).click();

  await expect
    .poll(async () => {
      const { items } = await server.get<{ items: { attempt: number }[] }>(`/jobs/${jobId}/nodes/each/iterations`);
      return items.map(({ attempt }) => attempt);
    })
    .toEqual([1, 2, 1]);
  await expect(header).toContainText("Completed with 2 failures");
  await page.goto("/?workflow=tolerant");
  await expect(page.getByRole("row", { name: new RegExp(jobId) })).toContainText("Completed with 2 failures");
});

test("pages that were not read are shown on the cards, in the panels and in the events", async ({ page, server }) => {
  const jobId = await server.runToEnd("pages");
  await page.goto(`/jobs/${jobId}?node=fetch`);
  const card = page.getByRole("button", { name: /^fetch, echo, completed.*more pages left/ });
  await expect(card).toBeVisible();
  await expect(page.getByRole("button", { name: /^many, echo, completed.*more pages left/ })).toBeVisible();
  // The name and the duration are readable: nothing covers the card.
  const name = card.getByText("fetch", { exact: true });
  expect(await name.evaluate((element) => element.scrollWidth <= element.clientWidth)).toBe(true);
  const panel = page.getByRole("complementary");
  await expect(panel).toContainText("2 pages read, more remain. Raise retry.on_success.max_attempts.");
  await expect(panel.getByRole("table").getByRole("row").nth(2)).toContainText("Completed, called again");

  await page.goto(`/jobs/${jobId}?node=many`);
  await expect(panel).toContainText("More remain in 1 iteration.");
  await panel.getByText("Iterations", { exact: true }).click();
  await expect(panel.getByRole("listitem").filter({ hasText: "more pages left" })).toHaveCount(1);

  await page.goto(`/jobs/${jobId}?tab=events`);
  await expect(page.getByText("call 1 succeeded, calling again").first()).toBeVisible();
  await expect(page.getByText("2 iterations · 1 with more pages left")).toBeVisible();
});
