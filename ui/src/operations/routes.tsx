import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "../app_frame";
import { parseOperationsSearch } from "./search";

const pageRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/operations",
  validateSearch: parseOperationsSearch,
  component: lazyRouteComponent(() => import("./operations_page"), "OperationsPage"),
});

export const operationsRoutes = [pageRoute] as const;
