// All workflows: what they are, how their last jobs went, and the way to run them.

import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect } from "react";
import { ButtonLink } from "../components/button_link";
import { Code, Empty, More, PageHead, Panel } from "../components/controls";
import { Loaded, ProblemBox } from "../components/query_result";
import { SearchField } from "../components/search_field";
import { Cell, type Column, RowHead, Table } from "../components/table";
import { Ago, useNow } from "../components/time";
import { usePaged } from "../lib/use_paged_query";
import { outcomesOf } from "./recent_jobs";
import { SparkGrid } from "./recent_jobs_chart";
import type { ListedWorkflow } from "./types";

const PAGE_SIZE = 100;
const RECENT = 20;
// A search looks through further pages by itself, this often and no further.
const SEARCH_PAGE_MS = 300;
const SEARCH_ITEMS_MAX = 5_000;

const COLUMNS: Column[] = [
  { name: "Workflow" },
  { name: "Version" },
  { name: "Last jobs" },
  { name: "Success", right: true },
  { name: "Last run" },
  { name: "Actions", hidden: true },
];

const route = getRouteApi("/workflows");

export function ListPage() {
  const { search = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const list = usePaged<ListedWorkflow>(["workflows"], { limit: PAGE_SIZE, recent: RECENT }, (workflows) =>
    workflows.some(hasJobsUnderWay),
  );
  useSearchOn(search !== "", list);
  const found = list.data?.filter((workflow) => fits(workflow, search.toLowerCase()));
  return (
    <>
      <PageHead
        title="Workflows"
        actions={
          <ButtonLink look="main" to="/editor">
            New workflow
          </ButtonLink>
        }
      />
      <search className="mb-3 block">
        <SearchField
          label="Search workflows"
          placeholder="Id or description"
          value={search}
          onSearch={(words) => void navigate({ search: words ? { search: words } : {}, replace: true })}
        />
      </search>
      {list.isRefetchError && <ProblemBox error={list.error} title="The list may be out of date" />}
      <Panel>
        <Loaded query={{ ...list, data: found }}>
          {(workflows) =>
            workflows.length > 0 ? <WorkflowTable workflows={workflows} /> : <Nothing isSearch={search !== ""} />
          }
        </Loaded>
      </Panel>
      {list.hasNextPage && <More onClick={() => void list.fetchNextPage()} busy={list.isFetchingNextPage} />}
    </>
  );
}

function hasJobsUnderWay(workflow: ListedWorkflow): boolean {
  return workflow.recent.some((job) => job.completed_at === null);
}

function fits(workflow: ListedWorkflow, words: string): boolean {
  return `${workflow.workflow_id} ${workflow.description ?? ""}`.toLowerCase().includes(words);
}

/** While something is searched for, the pages that were not loaded yet are looked through too. */
function useSearchOn(isSearching: boolean, list: ReturnType<typeof usePaged<ListedWorkflow>>): void {
  const { hasNextPage, isFetching, fetchNextPage } = list;
  const count = list.data?.length ?? 0;
  const goesOn = isSearching && hasNextPage && !isFetching && count < SEARCH_ITEMS_MAX;
  useEffect(() => {
    if (goesOn) {
      const timer = setTimeout(() => void fetchNextPage(), SEARCH_PAGE_MS);
      return () => clearTimeout(timer);
    }
  }, [goesOn, fetchNextPage]);
}

function WorkflowTable({ workflows }: { workflows: ListedWorkflow[] }) {
  const now = useNow(workflows.some(hasJobsUnderWay) ? 1_000 : null);
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
  const { ended, completed } = outcomesOf(recent);
  const last = recent[0];
  return (
    <tr className="hover:bg-sunken/50">
      <RowHead className="min-w-52 max-w-96">
        <Link to="/workflows/$workflowId" params={{ workflowId }} className="break-words hover:underline">
          {workflowId}
        </Link>
        {workflow.description && (
          <p className="line-clamp-2 break-words font-normal text-muted">{workflow.description}</p>
        )}
      </RowHead>
      <Cell className="tabular-nums">{workflow.version}</Cell>
      <Cell>
        <SparkGrid workflowId={workflowId} recent={recent} now={now} />
      </Cell>
      <Cell right>
        {ended > 0 ? (
          <span title={`${completed} of ${ended} that ended`}>{Math.round((100 * completed) / ended)} %</span>
        ) : (
          <span className="text-muted">–</span>
        )}
      </Cell>
      <Cell>{last ? <Ago at={last.created_at} /> : <span className="text-muted">never</span>}</Cell>
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

function Nothing({ isSearch }: { isSearch: boolean }) {
  if (isSearch) {
    return (
      <Empty title="No workflow fits this search">
        <Link to="/workflows" className="text-accent hover:underline">
          Show all workflows
        </Link>
      </Empty>
    );
  }
  return (
    <Empty title="No workflow is deployed yet">
      <p>
        Deploy a document with <Code>windlass deploy FILE</Code>, or{" "}
        <Link to="/editor" className="text-accent hover:underline">
          write one here
        </Link>
        .
      </p>
    </Empty>
  );
}
