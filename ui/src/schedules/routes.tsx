import { createRoute } from "@tanstack/react-router";
import { PageHead } from "../parts/controls";
import { rootRoute } from "../root";

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/schedules",
  component: () => <PageHead title="Schedules" />,
});

const runsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs",
  component: () => <PageHead title="Runs" />,
});

export const scheduleRoutes = [listRoute, runsRoute] as const;
