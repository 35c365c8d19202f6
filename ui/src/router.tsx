import { createRouter } from "@tanstack/react-router";
import { rootRoute } from "./app_frame";
import { jobRoutes } from "./jobs/routes";
import { operationsRoutes } from "./operations/routes";
import { runRoutes } from "./runs/routes";
import { scheduleRoutes } from "./schedules/routes";
import { workflowRoutes } from "./workflows/routes";

export const router = createRouter({
  routeTree: rootRoute.addChildren([
    ...jobRoutes,
    ...workflowRoutes,
    ...scheduleRoutes,
    ...runRoutes,
    ...operationsRoutes,
  ]),
  defaultPreload: "intent",
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
