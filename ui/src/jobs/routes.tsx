import { createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { rootRoute } from "../app_frame";
import { parseFilters } from "./list/filters";
import { parseCompareSearch, parseJobSearch } from "./search";

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  validateSearch: parseFilters,
  component: lazyRouteComponent(() => import("./list/list_page"), "ListPage"),
});

// Without the id of a job, the path of a job leads to the list.
const jobsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/jobs",
  validateSearch: parseFilters,
  beforeLoad: ({ search }) => {
    throw redirect({ to: "/", search, replace: true });
  },
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

export const jobRoutes = [listRoute, jobsRoute, jobRoute, compareRoute] as const;
