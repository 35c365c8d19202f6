import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "../app_frame";
import { parseScheduleSearch } from "./search";

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/schedules",
  component: lazyRouteComponent(() => import("./list_page"), "ListPage"),
});

const scheduleRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/schedules/$workflowId",
  validateSearch: parseScheduleSearch,
  component: lazyRouteComponent(() => import("./schedule_page"), "SchedulePage"),
});

export const scheduleRoutes = [listRoute, scheduleRoute] as const;
