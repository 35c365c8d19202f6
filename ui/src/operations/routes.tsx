import { createRoute } from "@tanstack/react-router";
import { PageHead } from "../parts/controls";
import { rootRoute } from "../root";

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/operations",
  component: () => <PageHead title="Operations" />,
});

export const operationsRoutes = [listRoute] as const;
