import { createRoute } from "@tanstack/react-router";
import { PageHead } from "../parts/controls";
import { rootRoute } from "../root";

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  component: () => <PageHead title="Jobs" />,
});

export const jobRoutes = [listRoute] as const;
