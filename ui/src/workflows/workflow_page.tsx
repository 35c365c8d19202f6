// One workflow with its tabs.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type ComponentType, lazy, Suspense } from "react";
import type { Workflow } from "../api/types";
import { ButtonLink } from "../components/button_link";
import { PageHeader, Tabs } from "../components/controls";
import { isNotFound } from "../components/not_found";
import { QueryResult } from "../components/query_result";
import { usePageTitle } from "../lib/page_title";
import { OverviewTab } from "./overview_tab";
import { workflowQuery } from "./queries";
import { parseWorkflowSearch, TABS, type Tab } from "./search";
import { WorkflowNotFound } from "./workflow_not_found";

const REFRESH_MS = 10_000;

const route = getRouteApi("/workflows/$workflowId");

const TAB_NAMES: Record<Tab, string> = {
  overview: "Overview",
  run: "Run",
  versions: "Versions",
  aliases: "Aliases",
  jobs: "Jobs",
  statistics: "Statistics",
};

const TAB_VIEWS: Record<Tab, ComponentType<{ workflow: Workflow }>> = {
  overview: OverviewTab,
  run: lazy(async () => ({ default: (await import("./run_tab")).RunTab })),
  versions: lazy(async () => ({ default: (await import("./versions_tab")).VersionsTab })),
  aliases: lazy(async () => ({ default: (await import("./aliases_tab")).AliasesTab })),
  jobs: lazy(async () => ({ default: (await import("./jobs_tab")).JobsTab })),
  statistics: lazy(async () => ({ default: (await import("./statistics_tab")).StatisticsTab })),
};

export function WorkflowPage() {
  const { workflowId } = route.useParams();
  const { tab: current = "overview" } = route.useSearch();
  const navigate = route.useNavigate();
  const workflow = useQuery({ ...workflowQuery(workflowId), refetchInterval: REFRESH_MS });
  const View = TAB_VIEWS[current];
  usePageTitle(workflowId, "Workflows");
  if (!workflow.data && isNotFound(workflow.error)) {
    return <WorkflowNotFound />;
  }
  return (
    <>
      <PageHeader
        title={workflowId}
        subtitle={workflow.data?.description}
        actions={<Actions workflowId={workflowId} />}
      />
      <Tabs
        label="Workflow views"
        tabs={TABS.map((key) => ({
          key,
          name: TAB_NAMES[key],
          isCurrent: key === current,
          onSelect: () => void navigate({ search: (before) => parseWorkflowSearch({ ...before, tab: key }) }),
        }))}
      />
      <div role="tabpanel" aria-label={TAB_NAMES[current]} className="pt-4">
        <QueryResult query={workflow}>
          {(loaded) => (
            <Suspense fallback={<p className="p-6 text-muted">Loading…</p>}>
              <View key={workflowId} workflow={loaded} />
            </Suspense>
          )}
        </QueryResult>
      </div>
    </>
  );
}

function Actions({ workflowId }: { workflowId: string }) {
  return (
    <>
      <ButtonLink to="/editor" search={{ id: workflowId }}>
        Edit
      </ButtonLink>
      <ButtonLink variant="primary" to="/workflows/$workflowId" params={{ workflowId }} search={{ tab: "run" }}>
        Run
      </ButtonLink>
    </>
  );
}
