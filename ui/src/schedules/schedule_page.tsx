// One schedule: its details, next slots and calendar.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { Schedule } from "../api/types";
import { Code, linkClass, PageHeader, Panel } from "../components/controls";
import { Detail, DetailList } from "../components/details";
import { JsonTree } from "../components/json_tree";
import { isNotFound, NotFound } from "../components/not_found";
import { QueryResult } from "../components/query_result";
import { Cell, Table } from "../components/table";
import { RelativeTime } from "../components/time";
import { formatDuration } from "../lib/format";
import { usePageTitle } from "../lib/page_title";
import { EventPanel } from "../runs/event_table";
import { formatLocalTime, formatLocalTimeBeside, toLocalTime } from "./calendar";
import { CalendarPanel } from "./calendar_panel";
import { Countdown } from "./countdown_timer";
import { describeSchedule } from "./describe_schedule";
import { NextSlot } from "./list_page";
import { type NextTimes, nextTimesQuery, scheduleQuery } from "./queries";
import { ScheduleActions } from "./schedule_actions";

const REFRESH_MS = 5_000;
const NEXT_SLOTS_REFRESH_MS = 10_000;
const NEXT_SLOTS_MAX = 8;

const route = getRouteApi("/schedules/$workflowId");

export function SchedulePage() {
  const { workflowId } = route.useParams();
  const schedule = useQuery({ ...scheduleQuery(workflowId), refetchInterval: REFRESH_MS });
  usePageTitle(workflowId, "Schedules");
  if (!schedule.data && isNotFound(schedule.error)) {
    return (
      <NotFound name="Schedule">
        <Link to="/schedules" className={linkClass}>
          Show all schedules
        </Link>
      </NotFound>
    );
  }
  return (
    <>
      <PageHeader
        title={workflowId}
        subtitle={schedule.data && describeSchedule(schedule.data)}
        actions={schedule.data && <ScheduleActions schedule={schedule.data} showBackfill />}
      />
      <QueryResult query={schedule}>{(loaded) => <Content key={workflowId} schedule={loaded} />}</QueryResult>
    </>
  );
}

function Content({ schedule }: { schedule: Schedule }) {
  const next = useQuery({ ...nextTimesQuery(schedule.workflow_id), refetchInterval: NEXT_SLOTS_REFRESH_MS });
  const isActive = schedule.enabled && !schedule.paused;
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1fr)_26rem]">
      <CalendarPanel schedule={schedule} upcoming={isActive ? (next.data?.times ?? []) : []} />
      <div className="space-y-4">
        <ScheduleDetails schedule={schedule} />
        <Panel title="Next slots">
          <QueryResult query={next}>{(times) => <NextTable times={times} isActive={isActive} />}</QueryResult>
        </Panel>
        <EventPanel of="schedules" id={schedule.workflow_id} refetchInterval={NEXT_SLOTS_REFRESH_MS} />
      </div>
    </div>
  );
}

function ScheduleDetails({ schedule }: { schedule: Schedule }) {
  const { workflow_id: workflowId } = schedule;
  return (
    <Panel title="Details">
      <DetailList>
        <Detail name="Next slot">
          <NextSlot schedule={schedule} />
        </Detail>
        {schedule.cron !== null && (
          <Detail name="Cron">
            <Code>{schedule.cron}</Code>
          </Detail>
        )}
        <Detail name="Time zone">{schedule.timezone}</Detail>
        {schedule.jitter_seconds > 0 && <Detail name="Jitter">up to {formatDuration(schedule.jitter_seconds)}</Detail>}
        <Detail name="Workflow">
          <Link to="/workflows/$workflowId" params={{ workflowId }} className={linkClass}>
            {workflowId}
          </Link>
          <span className="text-muted">@{schedule.version}</span>
        </Detail>
        <Detail name="Runs">
          <Link to="/runs" search={{ workflow: workflowId }} className={linkClass}>
            All runs
          </Link>
        </Detail>
        {schedule.changed_at !== null && (
          <Detail name="Changed">
            <RelativeTime at={schedule.changed_at} />
          </Detail>
        )}
        {Object.keys(schedule.input_data).length > 0 && (
          <Detail name="Input">
            <JsonTree value={schedule.input_data} />
          </Detail>
        )}
      </DetailList>
    </Panel>
  );
}

function NextTable({ times, isActive }: { times: NextTimes; isActive: boolean }) {
  if (times.times.length === 0) {
    return <p className="px-4 py-3 text-muted">No upcoming slots</p>;
  }
  const visible = times.times.slice(0, NEXT_SLOTS_MAX);
  const isOtherZone = visible.some(
    (at, index) => toLocalTime(at).slice(0, 19) !== times.local_times[index]?.slice(0, 19),
  );
  return (
    <>
      {!isActive && <p className="px-4 pt-3 text-waiting">Paused: slots are skipped until the schedule is resumed.</p>}
      <Table
        label="Next slots"
        columns={[
          { name: times.timezone },
          ...(isOtherZone ? [{ name: "Local time" }] : []),
          { name: "Starts in", right: true },
        ]}
      >
        {visible.map((at, index) => (
          <tr key={at}>
            <Cell className="whitespace-nowrap tabular-nums">{formatLocalTime(times.local_times[index] ?? at)}</Cell>
            {isOtherZone && (
              <Cell className="whitespace-nowrap tabular-nums text-muted">
                {formatLocalTimeBeside(toLocalTime(at), times.local_times[index] ?? at)}
              </Cell>
            )}
            <Cell right>
              <Countdown at={at} />
            </Cell>
          </tr>
        ))}
      </Table>
    </>
  );
}
