// All schedules: when each fires, how it went last, and what can be done with it.

import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Run, Schedule } from "../api/types";
import { Code, Empty, More, PageHead, Panel } from "../components/controls";
import { Loaded, ProblemBox } from "../components/query_result";
import { Status, StatusIcon } from "../components/status";
import { Cell, type Column, RowHead, Table } from "../components/table";
import { Moment } from "../components/time";
import { usePaged } from "../lib/use_paged_query";
import { RunLink, runStatus } from "../runs/links";
import { CountdownClock } from "./countdown_clock";
import { rhythmInWords } from "./describe_schedule";
import { runsOf } from "./queries";
import { Steering } from "./schedule_actions";

const RUNS_READ = 100;
// Schedules whose last run is further back are asked for one by one, so many and so seldom.
const SELDOM_MAX = 15;
const SELDOM_MS = 60_000;

const COLUMNS: Column[] = [
  { name: "Workflow" },
  { name: "Fires" },
  { name: "Next" },
  { name: "Last run" },
  { name: "Actions", hidden: true },
];

export function ListPage() {
  const list = usePaged<Schedule>(["schedules"], {}, (schedules) => schedules.some(({ next_at }) => next_at !== null));
  return (
    <>
      <PageHead title="Schedules" about="Workflows that start by themselves." />
      {list.isRefetchError && <ProblemBox error={list.error} title="The list may be out of date" />}
      <Panel>
        <Loaded query={list}>
          {(schedules) => (schedules.length > 0 ? <Schedules schedules={schedules} /> : <NoSchedules />)}
        </Loaded>
      </Panel>
      {list.hasNextPage && <More onClick={() => void list.fetchNextPage()} busy={list.isFetchingNextPage} />}
    </>
  );
}

function Schedules({ schedules }: { schedules: Schedule[] }) {
  const last = useLastRuns(schedules.map((schedule) => schedule.workflow_id));
  return (
    <Table label="Schedules" columns={COLUMNS}>
      {schedules.map((schedule) => (
        <Row key={schedule.workflow_id} schedule={schedule} last={last.get(schedule.workflow_id)} />
      ))}
    </Table>
  );
}

/** The newest run of each workflow that has begun. */
function useLastRuns(workflowIds: string[]): Map<string, Run> {
  const newest = useQuery({ ...runsOf(undefined, RUNS_READ), refetchInterval: 5_000 });
  const found = new Map<string, Run>();
  const add = (runs: Run[] | undefined) => {
    for (const run of runs ?? []) {
      if (run.state !== "pre_run" && !found.has(run.workflow_id)) {
        found.set(run.workflow_id, run);
      }
    }
  };
  add(newest.data);
  const missing = newest.data ? workflowIds.filter((id) => !found.has(id)).slice(0, SELDOM_MAX) : [];
  const seldom = useQueries({
    queries: missing.map((id) => ({ ...runsOf(id, 2), staleTime: SELDOM_MS, refetchInterval: SELDOM_MS })),
  });
  for (const query of seldom) {
    add(query.data);
  }
  return found;
}

function Row({ schedule, last }: { schedule: Schedule; last: Run | undefined }) {
  const { workflow_id: workflowId } = schedule;
  return (
    <tr className="hover:bg-sunken/50">
      <RowHead className="min-w-40">
        <Link to="/schedules/$workflowId" params={{ workflowId }} className="break-words hover:underline">
          {workflowId}
        </Link>
      </RowHead>
      <Cell className="min-w-48">
        <span title={schedule.cron ?? undefined}>{rhythmInWords(schedule)}</span>
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
          <span className="text-muted">none yet</span>
        )}
      </Cell>
      <Cell right>
        <Steering schedule={schedule} />
      </Cell>
    </tr>
  );
}

export function NextSlot({ schedule }: { schedule: Schedule }) {
  if (schedule.paused) {
    return (
      <span className="inline-flex items-center gap-1.5 font-medium text-waiting">
        <StatusIcon status="waiting" /> paused
      </span>
    );
  }
  if (schedule.next_at === null) {
    return <span className="text-muted">{schedule.enabled ? "nothing is due any more" : "not enabled"}</span>;
  }
  return (
    <span className="inline-flex flex-wrap items-baseline gap-x-2">
      <CountdownClock at={schedule.next_at} />
      <span className="text-muted">
        <Moment at={schedule.next_at} />
      </span>
    </span>
  );
}

function NoSchedules() {
  return (
    <Empty title="No workflow has a schedule">
      <p>
        Give one a <Code>{'schedule: {cron: "30 2 * * *"}'}</Code> and deploy it, with <Code>windlass deploy FILE</Code>{" "}
        or in the{" "}
        <Link to="/editor" className="text-accent hover:underline">
          editor
        </Link>
        .
      </p>
    </Empty>
  );
}
