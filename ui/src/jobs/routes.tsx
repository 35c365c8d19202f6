import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "../app_frame";
import { filtersOf } from "./list/filters";
import { compareSearchOf, jobSearchOf } from "./search";

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  validateSearch: filtersOf,
  component: lazyRouteComponent(() => import("./list/list_page"), "ListPage"),
});

const jobRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/jobs/$jobId",
  validateSearch: jobSearchOf,
  component: lazyRouteComponent(() => import("./job/job_page"), "JobPage"),
});

const compareRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/compare",
  validateSearch: compareSearchOf,
  component: lazyRouteComponent(() => import("./compare/compare_page"), "ComparePage"),
});

export const jobRoutes = [listRoute, jobRoute, compareRoute] as const;
