import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "../app_frame";
import { parseDeliveriesSearch, parseRunsSearch } from "./search";

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs",
  validateSearch: parseRunsSearch,
  component: lazyRouteComponent(() => import("./list_page"), "ListPage"),
});

const runRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs/$runId",
  component: lazyRouteComponent(() => import("./run_page"), "RunPage"),
});

const deliveriesRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/deliveries",
  validateSearch: parseDeliveriesSearch,
  component: lazyRouteComponent(() => import("./deliveries_page"), "DeliveriesPage"),
});

export const runRoutes = [listRoute, runRoute, deliveriesRoute] as const;
