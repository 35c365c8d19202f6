// Content from users and other origins.

import { expect, test } from "./server";

test("names from users are shown as text and never run", async ({ page, server }) => {
  const dialogs: string[] = [];
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  const markup = "<img/src=x/onerror=alert(9)>";
  const { job_id } = await server.post<{ job_id: string }>("/jobs", {
    workflow_id: "hostile",
    idempotency_key: markup,
  });
  await server.get(`/jobs/${job_id}?wait=30s`);
  for (const path of [
    "/workflows",
    "/workflows/hostile",
    `/jobs/${job_id}?node=shout`,
    `/jobs/${job_id}?node=fall`,
    `/jobs/${job_id}?tab=events`,
    `/jobs/${job_id}?tab=result`,
    `/?search=${encodeURIComponent(markup)}`,
  ]) {
    await page.goto(path);
    await page.waitForTimeout(300);
    await expect(page.locator("img[src=x], script:not([src])")).toHaveCount(0);
  }
  await page.goto(`/jobs/${job_id}?node=shout`);
  await expect(page.getByText("<img src=x onerror=alert(4)>").first()).toBeVisible();
  expect(dialogs).toEqual([]);
});

test("the content security policy forbids other origins", async ({ page }) => {
  const otherOrigins: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith("http://127.0.0.1") && !request.url().startsWith("data:")) {
      otherOrigins.push(request.url());
    }
  });
  const response = await page.goto("/");
  const policy = response?.headers()["content-security-policy"] ?? "";

  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toContain("unsafe-inline");
  expect(otherOrigins).toEqual([]);
});
