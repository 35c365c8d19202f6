// Webhook deliveries and the jobs that make them.

import type { Page } from "@playwright/test";
import { deliverWebhook } from "./deliveries";
import { expect, test } from "./server";

/** Requests for definitions of internal workflows, which the API does not have. */
function recordInternalRequests(page: Page): string[] {
  const paths: string[] = [];
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.includes("/workflows/windlass.")) {
      paths.push(pathname);
    }
  });
  return paths;
}

test("a webhook is delivered again", async ({ page, server }) => {
  const { delivery_id } = await deliverWebhook(server);
  await page.goto("/deliveries");
  const redeliver = page.getByRole("button", { name: `Redeliver ${delivery_id}` });
  await expect(redeliver).toHaveText("Redeliver");

  await redeliver.click();
  await page.getByRole("status").getByRole("link", { name: "job" }).click();
  await expect(page.getByText("This job delivers a webhook.")).toBeVisible();
});

test("the job of a webhook shows its graph and its delivery", async ({ page, server }) => {
  const { job_id } = await deliverWebhook(server);
  const requests = recordInternalRequests(page);
  await page.goto("/");
  await expect(page.getByRole("row").filter({ hasText: "windlass.webhook" }).first()).toBeVisible();

  await page.goto(`/jobs/${job_id}`);
  await expect(page.getByRole("button", { name: /^deliver\b.*\bfailed\b/ })).toBeVisible();
  await expect(page.getByRole("button", { name: "Run again" })).toHaveCount(0);
  await expect(page.getByRole("link", { name: "windlass.webhook" })).toHaveCount(0);
  await page.getByRole("link", { name: "Show delivery" }).click();

  await expect(page.getByRole("dialog")).toContainText("http://127.0.0.1:9/hook");
  expect(requests).toEqual([]);
});
