import { createRoute } from "@tanstack/react-router";
import { PageHead } from "../parts/controls";
import { rootRoute } from "../root";

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/workflows",
  component: () => <PageHead title="Workflows" />,
});

export const workflowRoutes = [listRoute] as const;
