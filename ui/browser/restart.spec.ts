// An open page while the server restarts.

import { expect, test } from "./server";

test("a page reconnects to a restarted server without a reload", async ({ page, server }) => {
  const jobId = await server.run("slow", { seconds: 4 });
  await page.goto(`/jobs/${jobId}`);
  await expect(page.getByRole("button", { name: /^sleep\b.*\brunning\b/ })).toBeVisible();
  await page.evaluate(() => {
    document.body.dataset.loaded = "once";
  });

  await server.kill();
  await expect(page.getByText(/Connection lost/i)).toBeVisible();
  await server.start();

  await expect(page.getByRole("button", { name: /^finish\b.*\bcompleted\b/ })).toBeVisible({ timeout: 40_000 });
  await expect(page.getByText(/Connection lost/i)).toBeHidden();
  expect(await page.evaluate(() => document.body.dataset.loaded)).toBe("once");
});
