import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "../app_frame";
import { parseEditorSearch, parseListSearch, parseWorkflowSearch } from "./search";

const listRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/workflows",
  validateSearch: parseListSearch,
  component: lazyRouteComponent(() => import("./list_page"), "ListPage"),
});

const editorRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/editor",
  validateSearch: parseEditorSearch,
  component: lazyRouteComponent(() => import("./editor/editor_page"), "EditorPage"),
});

const workflowRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/workflows/$workflowId",
  validateSearch: parseWorkflowSearch,
  component: lazyRouteComponent(() => import("./workflow_page"), "WorkflowPage"),
});

export const workflowRoutes = [listRoute, editorRoute, workflowRoute] as const;
