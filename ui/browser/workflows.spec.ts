// The editor, versions and aliases of workflows.

import { expect, test } from "./server";

test("an error in a document is shown at its line, fixed and deployed", async ({ page, server }) => {
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
  await expect(page.getByText("Deployed edited version 2.")).toBeVisible();
  // The message stays while the page loads the new version.
  await page.waitForLoadState("networkidle");
  await expect(page.getByText("Deployed edited version 2.")).toBeVisible();
});

test("two versions have a line diff, and an alias is changed", async ({ page, server }) => {
  const version = (text: string) =>
    server.post(
      "/workflows",
      `workflow_id: versioned\nnodes:\n  a: { handler: echo, params: { text: ${text} } }\n`,
      "application/yaml",
    );
  await version("one");
  await version("two");
  await page.goto("/workflows/versioned?tab=versions");
  await page.getByRole("link", { name: "Changes in version 2" }).click();
  const lines = page.getByLabel("Line diff");
  await expect(lines).toContainText("one");
  await expect(lines).toContainText("two");

  await page.goto("/workflows/versioned?tab=aliases");
  await page.getByRole("button", { name: "New alias" }).click();
  await page.getByLabel("Name").fill("stable");
  await page.getByRole("button", { name: "Create" }).click();
  const alias = page.getByRole("row").filter({ hasText: "stable" });
  await expect(alias).toContainText("Version 2");

  await page.getByRole("button", { name: "Edit stable" }).click();
  await page.getByLabel("Version", { exact: true }).selectOption("1");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(alias).toContainText("Version 1");
});
