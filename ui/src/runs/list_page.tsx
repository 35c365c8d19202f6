// The list of runs, newest slot first.

import { getRouteApi, Link } from "@tanstack/react-router";
import type { Run } from "../api/types";
import { Button, Code, EmptyState, LoadMore, linkClass, PageHeader, Panel, Select } from "../components/controls";
import { ErrorAlert, QueryResult } from "../components/query_result";
import { Status, statusText } from "../components/status";
import { Cell, type Column, Table } from "../components/table";
import { Duration, Timestamp } from "../components/time";
import { JobLink, WorkflowLink } from "../jobs/links";
import { pluralize } from "../lib/format";
import { usePageTitle } from "../lib/page_title";
import { usePagedQuery } from "../lib/use_paged_query";
import { isFinal } from "./lifecycle";
import { RunLink, runStatus } from "./links";
import { RunsTabs } from "./runs_tabs";
import { parseRunsSearch, RUN_STATES, type RunsSearch } from "./search";
import { WorkflowFilter } from "./workflow_filter";

const PAGE_SIZE = 50;

const COLUMNS: Column[] = [
  { name: "Status" },
  { name: "Slot" },
  { name: "Workflow" },
  { name: "Origin" },
  { name: "Job" },
  { name: "Duration", right: true },
  { name: "Details" },
];

const route = getRouteApi("/runs");

export function ListPage() {
  usePageTitle("Runs");
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const list = usePagedQuery<Run>(
    ["runs"],
    { workflow_id: filters.workflow, state: filters.state, limit: PAGE_SIZE },
    (runs) => runs.some((run) => !isFinal(run.state) && run.state !== "pre_run"),
  );
  const set = (change: Record<string, string>) =>
    void navigate({ search: (before) => parseRunsSearch({ ...before, ...change }), replace: true });
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <>
      <PageHeader title="Runs" subtitle="Slots and jobs of workflows with a schedule, constraints or actions" />
      <RunsTabs current="runs" />
      <search className="mb-3 flex flex-wrap items-center gap-2">
        <WorkflowFilter value={filters.workflow} onChange={(workflow) => set({ workflow })} />
        <Select
          label="Status"
          hideLabel
          value={filters.state ?? ""}
          options={[["", "Any status"], ...RUN_STATES.map((state) => [state, statusText(state)] as const)]}
          onChange={(event) => set({ state: event.target.value })}
        />
        {isFiltered && (
          <Button variant="ghost" onClick={() => void navigate({ search: {} })}>
            Clear filters
          </Button>
        )}
      </search>
      {list.isRefetchError && <ErrorAlert error={list.error} title="Refresh failed" />}
      <Panel>
        <QueryResult query={list}>
          {(runs) => (runs.length > 0 ? <RunTable runs={runs} /> : <NoRuns filters={filters} />)}
        </QueryResult>
      </Panel>
      {list.hasNextPage && <LoadMore onClick={() => void list.fetchNextPage()} isBusy={list.isFetchingNextPage} />}
    </>
  );
}

function RunTable({ runs }: { runs: Run[] }) {
  return (
    <Table label="Runs" columns={COLUMNS}>
      {runs.map((run) => (
        <tr key={run.run_id} className="hover:bg-sunken/50">
          <Cell>
            <Status status={runStatus(run)} />
          </Cell>
          <Cell>
            <RunLink run={run} className={linkClass}>
              <Timestamp at={run.scheduled_at} />
            </RunLink>
          </Cell>
          <Cell>
            <WorkflowLink workflowId={run.workflow_id} version={run.version} />
          </Cell>
          <Cell className="text-muted">{statusText(run.origin)}</Cell>
          <Cell>{run.job_id ? <JobLink jobId={run.job_id} /> : <span className="text-muted">–</span>}</Cell>
          <Cell right>
            {run.state === "pre_run" ? <span className="text-muted">–</span> : <RunDuration run={run} />}
          </Cell>
          <Cell className="max-w-96 truncate text-muted">{detailsOf(run)}</Cell>
        </tr>
      ))}
    </Table>
  );
}

/** The time since the run was due, not since it was created. */
function RunDuration({ run }: { run: Run }) {
  const start = run.transitions.find((transition) => transition.state !== "pre_run");
  return <Duration start={start?.at ?? null} end={run.completed_at} />;
}

function detailsOf(run: Run): string {
  const parts = [
    run.reason,
    run.attempt > 0 ? pluralize(run.attempt + 1, "attempt") : null,
    run.violations.length > 0 ? pluralize(run.violations.length, "violation") : null,
  ];
  return parts.filter((part) => part !== null).join(" · ");
}

function NoRuns({ filters }: { filters: RunsSearch }) {
  if (Object.keys(filters).length > 0) {
    return (
      <EmptyState title="No matching runs">
        <Link to="/runs" className={linkClass}>
          Show all runs
        </Link>
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No runs yet">
      <p>
        Workflows with <Code>schedule</Code>, <Code>constraints</Code>, <Code>actions</Code> or <Code>run_retry</Code>{" "}
        have runs. Start one with <Code>windlass schedules trigger WORKFLOW</Code>.
      </p>
    </EmptyState>
  );
}
