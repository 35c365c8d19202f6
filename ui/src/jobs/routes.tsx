import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "../app_frame";
import { parseFilters } from "./list/filters";
import { parseCompareSearch, parseJobSearch } from "./search";

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  validateSearch: parseFilters,
  component: lazyRouteComponent(() => import("./list/list_page"), "ListPage"),
});

const jobRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/jobs/$jobId",
  validateSearch: parseJobSearch,
  component: lazyRouteComponent(() => import("./job/job_page"), "JobPage"),
});

const compareRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/compare",
  validateSearch: parseCompareSearch,
  component: lazyRouteComponent(() => import("./compare/compare_page"), "ComparePage"),
});

export const jobRoutes = [listRoute, jobRoute, compareRoute] as const;
