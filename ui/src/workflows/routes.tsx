import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "../app_frame";
import { editorSearchOf, listSearchOf, workflowSearchOf } from "./search";

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/workflows",
  validateSearch: listSearchOf,
  component: lazyRouteComponent(() => import("./list_page"), "ListPage"),
});

const editorRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/editor",
  validateSearch: editorSearchOf,
  component: lazyRouteComponent(() => import("./editor/editor_page"), "EditorPage"),
});

const workflowRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/workflows/$workflowId",
  validateSearch: workflowSearchOf,
  component: lazyRouteComponent(() => import("./workflow_page"), "WorkflowPage"),
});

export const workflowRoutes = [listRoute, editorRoute, workflowRoute] as const;
