// One workflow: its graph, versions, aliases, jobs and figures, and the form that runs it.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type ComponentType, lazy, Suspense } from "react";
import type { Workflow } from "../api/types";
import { ButtonLink } from "../components/button_link";
import { PageHead, Tabs } from "../components/controls";
import { Loaded } from "../components/query_result";
import { OverviewTab } from "./overview_tab";
import { workflowQuery } from "./queries";
import { TABS, type Tab, workflowSearchOf } from "./search";

const SEEN_AGAIN_MS = 10_000;

const route = getRouteApi("/workflows/$workflowId");

const NAMES: Record<Tab, string> = {
  overview: "Overview",
  run: "Run",
  versions: "Versions",
  aliases: "Aliases",
  jobs: "Jobs",
  statistics: "Statistics",
};

const PAGES: Record<Tab, ComponentType<{ workflow: Workflow }>> = {
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
  const workflow = useQuery({ ...workflowQuery(workflowId), refetchInterval: SEEN_AGAIN_MS });
  const Page = PAGES[current];
  return (
    <>
      <PageHead title={workflowId} about={workflow.data?.description} actions={<Actions workflowId={workflowId} />} />
      <Tabs
        label={`About ${workflowId}`}
        tabs={TABS.map((key) => ({
          key,
          name: NAMES[key],
          current: key === current,
          onPick: () => void navigate({ search: (before) => workflowSearchOf({ ...before, tab: key }) }),
        }))}
      />
      <div role="tabpanel" aria-label={NAMES[current]} className="pt-4">
        <Loaded query={workflow}>
          {(found) => (
            <Suspense fallback={<p className="p-6 text-muted">Loading…</p>}>
              <Page key={workflowId} workflow={found} />
            </Suspense>
          )}
        </Loaded>
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
      <ButtonLink look="main" to="/workflows/$workflowId" params={{ workflowId }} search={{ tab: "run" }}>
        Run
      </ButtonLink>
    </>
  );
}
