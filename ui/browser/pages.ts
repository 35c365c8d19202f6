// Every page of the UI with data on it, for screenshots and for checks of all pages.

import { deliverWebhook } from "./deliveries";
import type { Server } from "./server";

/** Create data on the server and return the path of each page. */
export async function everyPage(server: Server): Promise<[name: string, path: string][]> {
  const first = await server.runToEnd("slow", { seconds: 0.6, note: "first" });
  const second = await server.runToEnd("slow", { seconds: 1.2, note: "second" });
  const failed = await server.runToEnd("breaks", { switch: "/missing" });
  const loop = await server.runToEnd("many", { count: 500 });
  const tolerant = await server.runToEnd("tolerant");
  const cut = await server.runToEnd("pages");
  await server.runToEnd("hostile");
  const { job_id: scheduled } = await server.post<{ job_id: string }>("/schedules/ticking/trigger", {});
  await server.get(`/jobs/${scheduled}?wait=30s`);
  const runs = await server.get<{ items: { run_id: string }[] }>("/runs");
  const webhook = await deliverWebhook(server);
  return [
    ["jobs", "/"],
    ["job", `/jobs/${second}`],
    ["job-failed", `/jobs/${failed}?node=check`],
    ["job-loop", `/jobs/${loop}?node=each`],
    ["job-failures", `/jobs/${tolerant}?node=each`],
    ["job-pages", `/jobs/${cut}?node=fetch`],
    ["job-timeline", `/jobs/${second}?tab=timeline`],
    ["job-events", `/jobs/${second}?tab=events`],
    ["job-logs", `/jobs/${failed}?tab=logs`],
    ["job-result", `/jobs/${second}?tab=result`],
    ["job-past", `/jobs/${second}?at=9`],
    ["compare", `/compare?left=${first}&right=${second}`],
    ["workflows", "/workflows"],
    ["workflow", "/workflows/slow"],
    ["workflow-run", "/workflows/slow?tab=run"],
    ["workflow-versions", "/workflows/slow?tab=versions"],
    ["workflow-aliases", "/workflows/slow?tab=aliases"],
    ["workflow-jobs", "/workflows/slow?tab=jobs"],
    ["workflow-statistics", "/workflows/slow?tab=statistics"],
    ["editor", "/editor?id=slow"],
    ["schedules", "/schedules"],
    ["schedule", "/schedules/ticking"],
    ["runs", "/runs"],
    ["run", `/runs/${runs.items[0]?.run_id}`],
    ["deliveries", "/deliveries"],
    ["job-webhook", `/jobs/${webhook.job_id}`],
    ["not-found", "/workflows/nope"],
    ["operations", "/operations"],
  ];
}
