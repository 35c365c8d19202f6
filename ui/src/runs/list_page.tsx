// All runs, newest slot first.

import { getRouteApi, Link } from "@tanstack/react-router";
import type { Run } from "../api/types";
import { Button, Choice, Code, Empty, More, PageHead, Panel, textLink } from "../components/controls";
import { Loaded, ProblemBox } from "../components/query_result";
import { Status } from "../components/status";
import { Cell, type Column, Table } from "../components/table";
import { Moment, Took } from "../components/time";
import { JobLink, WorkflowLink } from "../jobs/links";
import { plural } from "../lib/format";
import { usePaged } from "../lib/use_paged_query";
import { isFinal } from "./lifecycle";
import { RunLink, runStatus } from "./links";
import { Places } from "./runs_tabs";
import { RUN_STATES, type RunsSearch, runsSearchOf } from "./search";
import { WorkflowFilter } from "./workflow_filter";

const PAGE_SIZE = 50;

const COLUMNS: Column[] = [
  { name: "State" },
  { name: "Slot" },
  { name: "Workflow" },
  { name: "Origin" },
  { name: "Job" },
  { name: "Took", right: true },
  { name: "Told" },
];

const route = getRouteApi("/runs");

export function ListPage() {
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const list = usePaged<Run>(
    ["runs"],
    { workflow_id: filters.workflow, state: filters.state, limit: PAGE_SIZE },
    (runs) => runs.some((run) => !isFinal(run.state) && run.state !== "pre_run"),
  );
  const set = (change: Record<string, string>) =>
    void navigate({ search: (before) => runsSearchOf({ ...before, ...change }), replace: true });
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <>
      <PageHead title="Runs" about="The life around a job of a workflow with a schedule, constraints or actions." />
      <Places current="runs" />
      <search className="mb-3 flex flex-wrap items-center gap-2">
        <WorkflowFilter value={filters.workflow} onPick={(workflow) => set({ workflow })} />
        <Choice
          label="State"
          hidden
          value={filters.state ?? ""}
          options={[["", "Any state"], ...RUN_STATES.map((state) => [state, state.replaceAll("_", " ")] as const)]}
          onChange={(event) => set({ state: event.target.value })}
        />
        {isFiltered && (
          <Button look="quiet" onClick={() => void navigate({ search: {} })}>
            Clear
          </Button>
        )}
      </search>
      {list.isRefetchError && <ProblemBox error={list.error} title="The list may be out of date" />}
      <Panel>
        <Loaded query={list}>
          {(runs) => (runs.length > 0 ? <Runs runs={runs} /> : <NoRuns filters={filters} />)}
        </Loaded>
      </Panel>
      {list.hasNextPage && <More onClick={() => void list.fetchNextPage()} busy={list.isFetchingNextPage} />}
    </>
  );
}

function Runs({ runs }: { runs: Run[] }) {
  return (
    <Table label="Runs" columns={COLUMNS}>
      {runs.map((run) => (
        <tr key={run.run_id} className="hover:bg-sunken/50">
          <Cell>
            <Status status={runStatus(run)} />
          </Cell>
          <Cell>
            <RunLink run={run} className={textLink}>
              <Moment at={run.scheduled_at} />
            </RunLink>
          </Cell>
          <Cell>
            <WorkflowLink workflowId={run.workflow_id} version={run.version} />
          </Cell>
          <Cell className="text-muted">{run.origin}</Cell>
          <Cell>{run.job_id ? <JobLink jobId={run.job_id} /> : <span className="text-muted">–</span>}</Cell>
          <Cell right>{run.state === "pre_run" ? <span className="text-muted">–</span> : <RunTook run={run} />}</Cell>
          <Cell className="max-w-96 truncate text-muted">{toldOf(run)}</Cell>
        </tr>
      ))}
    </Table>
  );
}

/** From the moment it was due, not from when it was planned. */
function RunTook({ run }: { run: Run }) {
  const begun = run.transitions.find((transition) => transition.state !== "pre_run");
  return <Took start={begun?.at ?? null} end={run.completed_at} />;
}

function toldOf(run: Run): string {
  const told = [
    run.attempt > 0 ? plural(run.attempt + 1, "attempt") : null,
    run.violations.length > 0 ? plural(run.violations.length, "violation") : null,
    run.reason,
  ];
  return told.filter((one) => one !== null).join(", ");
}

function NoRuns({ filters }: { filters: RunsSearch }) {
  if (Object.keys(filters).length > 0) {
    return (
      <Empty title="No run fits these filters">
        <Link to="/runs" className={textLink}>
          Show all runs
        </Link>
      </Empty>
    );
  }
  return (
    <Empty title="There are no runs yet">
      <p>
        A workflow with <Code>schedule</Code>, <Code>constraints</Code>, <Code>actions</Code> or <Code>run_retry</Code>{" "}
        has runs. Deploy one, then <Code>windlass schedules trigger WORKFLOW</Code> or its schedule starts them.
      </p>
    </Empty>
  );
}
