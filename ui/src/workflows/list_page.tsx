// The list of workflows with their latest jobs.

import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect } from "react";
import { ButtonLink } from "../components/button_link";
import { Code, EmptyState, LoadMore, PageHeader, Panel } from "../components/controls";
import { ErrorAlert, QueryResult } from "../components/query_result";
import { SearchField } from "../components/search_field";
import { Cell, type Column, RowHeader, Table } from "../components/table";
import { RelativeTime, useNow } from "../components/time";
import { usePageTitle } from "../lib/page_title";
import { usePagedQuery } from "../lib/use_paged_query";
import { countFinished } from "./recent_jobs";
import { RecentJobsChart } from "./recent_jobs_chart";
import type { ListedWorkflow } from "./types";

const PAGE_SIZE = 100;
const RECENT_JOBS = 20;
// A search loads further pages at this interval, up to this number of workflows.
const SEARCH_PAGE_MS = 300;
const SEARCH_WORKFLOWS_MAX = 5_000;

const COLUMNS: Column[] = [
  { name: "Workflow" },
  { name: "Version" },
  { name: "Latest jobs" },
  { name: "Success rate", right: true },
  { name: "Last job" },
  { name: "Actions", isHidden: true },
];

const route = getRouteApi("/workflows");

export function ListPage() {
  usePageTitle("Workflows");
  const { search = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const list = usePagedQuery<ListedWorkflow>(["workflows"], { limit: PAGE_SIZE, recent: RECENT_JOBS }, (workflows) =>
    workflows.some(hasActiveJobs),
  );
  useSearchAllPages(search !== "", list);
  const matching = list.data?.filter((workflow) => matches(workflow, search.toLowerCase()));
  return (
    <>
      <PageHeader
        title="Workflows"
        actions={
          <ButtonLink variant="primary" to="/editor">
            New workflow
          </ButtonLink>
        }
      />
      <search className="mb-3 block">
        <SearchField
          label="Search workflows"
          placeholder="Id or description"
          value={search}
          onSearch={(text) => void navigate({ search: text ? { search: text } : {}, replace: true })}
        />
      </search>
      {list.isRefetchError && <ErrorAlert error={list.error} title="Refresh failed" />}
      <Panel>
        <QueryResult query={{ ...list, data: matching }}>
          {(workflows) =>
            workflows.length > 0 ? <WorkflowTable workflows={workflows} /> : <NoWorkflows isSearch={search !== ""} />
          }
        </QueryResult>
      </Panel>
      {list.hasNextPage && <LoadMore onClick={() => void list.fetchNextPage()} isBusy={list.isFetchingNextPage} />}
    </>
  );
}

function hasActiveJobs(workflow: ListedWorkflow): boolean {
  return workflow.recent.some((job) => job.completed_at === null);
}

function matches(workflow: ListedWorkflow, query: string): boolean {
  return `${workflow.workflow_id} ${workflow.description ?? ""}`.toLowerCase().includes(query);
}

/** Load all pages during a search, since it runs in the browser. */
function useSearchAllPages(isSearching: boolean, list: ReturnType<typeof usePagedQuery<ListedWorkflow>>): void {
  const { hasNextPage, isFetching, fetchNextPage } = list;
  const count = list.data?.length ?? 0;
  const shouldLoad = isSearching && hasNextPage && !isFetching && count < SEARCH_WORKFLOWS_MAX;
  useEffect(() => {
    if (shouldLoad) {
      const timer = setTimeout(() => void fetchNextPage(), SEARCH_PAGE_MS);
      return () => clearTimeout(timer);
    }
  }, [shouldLoad, fetchNextPage]);
}

function WorkflowTable({ workflows }: { workflows: ListedWorkflow[] }) {
  const now = useNow(workflows.some(hasActiveJobs) ? 1_000 : null);
  return (
    <Table label="Workflows" columns={COLUMNS}>
      {workflows.map((workflow) => (
        <Row key={workflow.workflow_id} workflow={workflow} now={now} />
      ))}
    </Table>
  );
}

function Row({ workflow, now }: { workflow: ListedWorkflow; now: number }) {
  const { workflow_id: workflowId, recent } = workflow;
  const { finished, completed } = countFinished(recent);
  const last = recent[0];
  return (
    <tr className="hover:bg-sunken/50">
      <RowHeader className="min-w-52 max-w-96">
        <Link to="/workflows/$workflowId" params={{ workflowId }} className="break-words hover:underline">
          {workflowId}
        </Link>
        {workflow.description && (
          <p className="line-clamp-2 break-words font-normal text-muted">{workflow.description}</p>
        )}
      </RowHeader>
      <Cell className="tabular-nums">{workflow.version}</Cell>
      <Cell>
        <RecentJobsChart workflowId={workflowId} recent={recent} now={now} />
      </Cell>
      <Cell right>
        {finished > 0 ? (
          <span title={`${completed} of ${finished}`}>{Math.round((100 * completed) / finished)} %</span>
        ) : (
          <span className="text-muted">–</span>
        )}
      </Cell>
      <Cell>{last ? <RelativeTime at={last.created_at} /> : <span className="text-muted">Never</span>}</Cell>
      <Cell right>
        <ButtonLink
          to="/workflows/$workflowId"
          params={{ workflowId }}
          search={{ tab: "run" }}
          aria-label={`Run ${workflowId}`}
        >
          Run
        </ButtonLink>
      </Cell>
    </tr>
  );
}

function NoWorkflows({ isSearch }: { isSearch: boolean }) {
  if (isSearch) {
    return (
      <EmptyState title="No matching workflows">
        <Link to="/workflows" className="text-accent hover:underline">
          Show all workflows
        </Link>
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No workflows deployed">
      <p>
        Run <Code>windlass deploy FILE</Code>, or{" "}
        <Link to="/editor" className="text-accent hover:underline">
          create a workflow
        </Link>
        .
      </p>
    </EmptyState>
  );
}
