// The list of schedules with next slot, last run and actions.

import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Run, Schedule } from "../api/types";
import { Code, EmptyState, LoadMore, PageHeader, Panel } from "../components/controls";
import { ErrorAlert, QueryResult } from "../components/query_result";
import { Status, StatusIcon } from "../components/status";
import { Cell, type Column, RowHeader, Table } from "../components/table";
import { usePageTitle } from "../lib/page_title";
import { usePagedQuery } from "../lib/use_paged_query";
import { RunLink, runStatus } from "../runs/links";
import { formatSlot } from "./calendar";
import { Countdown } from "./countdown_timer";
import { describeSchedule } from "./describe_schedule";
import { runsOf } from "./queries";
import { ScheduleActions } from "./schedule_actions";

const LATEST_RUNS = 100;
// The last runs of other schedules are loaded one by one, at a longer interval.
const OLDER_SCHEDULES_MAX = 15;
const OLDER_REFRESH_MS = 60_000;

const COLUMNS: Column[] = [
  { name: "Workflow" },
  { name: "Schedule" },
  { name: "Next slot" },
  { name: "Last run" },
  { name: "Actions", isHidden: true },
];

export function ListPage() {
  usePageTitle("Schedules");
  const list = usePagedQuery<Schedule>(["schedules"], {}, (schedules) =>
    schedules.some(({ next_at }) => next_at !== null),
  );
  return (
    <>
      <PageHeader title="Schedules" />
      {list.isRefetchError && <ErrorAlert error={list.error} title="Refresh failed" />}
      <Panel>
        <QueryResult query={list}>
          {(schedules) => (schedules.length > 0 ? <ScheduleTable schedules={schedules} /> : <NoSchedules />)}
        </QueryResult>
      </Panel>
      {list.hasNextPage && <LoadMore onClick={() => void list.fetchNextPage()} isBusy={list.isFetchingNextPage} />}
    </>
  );
}

function ScheduleTable({ schedules }: { schedules: Schedule[] }) {
  const last = useLastRuns(schedules.map((schedule) => schedule.workflow_id));
  return (
    <Table label="Schedules" columns={COLUMNS}>
      {schedules.map((schedule) => (
        <Row key={schedule.workflow_id} schedule={schedule} last={last.get(schedule.workflow_id)} />
      ))}
    </Table>
  );
}

/** The latest started run of each workflow. */
function useLastRuns(workflowIds: string[]): Map<string, Run> {
  const newest = useQuery({ ...runsOf(undefined, LATEST_RUNS), refetchInterval: 5_000 });
  const lastRuns = new Map<string, Run>();
  const add = (runs: Run[] | undefined) => {
    for (const run of runs ?? []) {
      if (run.state !== "pre_run" && !lastRuns.has(run.workflow_id)) {
        lastRuns.set(run.workflow_id, run);
      }
    }
  };
  add(newest.data);
  const missing = newest.data ? workflowIds.filter((id) => !lastRuns.has(id)).slice(0, OLDER_SCHEDULES_MAX) : [];
  const older = useQueries({
    queries: missing.map((id) => ({
      ...runsOf(id, 2),
      staleTime: OLDER_REFRESH_MS,
      refetchInterval: OLDER_REFRESH_MS,
    })),
  });
  for (const query of older) {
    add(query.data);
  }
  return lastRuns;
}

function Row({ schedule, last }: { schedule: Schedule; last: Run | undefined }) {
  const { workflow_id: workflowId } = schedule;
  return (
    <tr className="hover:bg-sunken/50">
      <RowHeader className="min-w-40">
        <Link to="/schedules/$workflowId" params={{ workflowId }} className="break-words hover:underline">
          {workflowId}
        </Link>
      </RowHeader>
      <Cell className="min-w-48">
        <span title={schedule.cron ?? undefined}>{describeSchedule(schedule)}</span>
      </Cell>
      <Cell className="whitespace-nowrap">
        <NextSlot schedule={schedule} />
      </Cell>
      <Cell className="whitespace-nowrap">
        {last ? (
          <RunLink run={last} className="inline-flex hover:underline">
            <Status status={runStatus(last)} />
          </RunLink>
        ) : (
          <span className="text-muted">None</span>
        )}
      </Cell>
      <Cell right>
        <ScheduleActions schedule={schedule} />
      </Cell>
    </tr>
  );
}

export function NextSlot({ schedule }: { schedule: Schedule }) {
  if (schedule.paused) {
    return (
      <span className="inline-flex items-center gap-1.5 font-medium text-waiting">
        <StatusIcon status="waiting" /> Paused
      </span>
    );
  }
  if (schedule.next_at === null) {
    return <span className="text-muted">{schedule.enabled ? "None" : "Disabled"}</span>;
  }
  return (
    <span className="inline-flex flex-wrap items-baseline gap-x-2">
      <Countdown at={schedule.next_at} />
      <time dateTime={schedule.next_at} title={schedule.next_at} className="tabular-nums text-muted">
        {formatSlot(schedule.next_at, schedule.timezone)}
      </time>
    </span>
  );
}

function NoSchedules() {
  return (
    <EmptyState title="No schedules">
      <p>
        Add <Code>{'schedule: {cron: "30 2 * * *"}'}</Code> to a workflow and deploy it with{" "}
        <Code>windlass deploy FILE</Code> or in the{" "}
        <Link to="/editor" className="text-accent hover:underline">
          editor
        </Link>
        .
      </p>
    </EmptyState>
  );
}
