// The calendar of a schedule with past and upcoming slots, and the slots of the selected day.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useMemo } from "react";
import { LIVE_INTERVAL_MS } from "../api/queries";
import type { Schedule } from "../api/types";
import { Button, Panel } from "../components/controls";
import { ErrorAlert, QueryResult } from "../components/query_result";
import { StatusIcon, statusText } from "../components/status";
import { formatCount } from "../lib/format";
import { isFinal } from "../runs/lifecycle";
import { addMonths, dayOf, monthName, OUTCOMES, shownZone, slotsByDay } from "./calendar";
import { DaySlots } from "./day_slots";
import { MonthGrid, OUTCOME_STATUS } from "./month_grid";
import { loadOlderRuns, runHistoryQuery, TIMES_MAX } from "./queries";
import type { RunHistory } from "./run_history";
import { parseScheduleSearch } from "./search";

const IDLE_INTERVAL_MS = 10_000;
// Older runs are loaded page by page until the month is covered.
const OLDER_PAGE_MS = 300;
const RUNS_MAX = 3_000;

const route = getRouteApi("/schedules/$workflowId");

export function CalendarPanel({ schedule, upcoming }: { schedule: Schedule; upcoming: string[] }) {
  const { workflow_id: workflowId, timezone: zone } = schedule;
  const today = dayOf(new Date().toISOString(), zone);
  const { month = today.slice(0, 7), day } = route.useSearch();
  const navigate = route.useNavigate();
  const history = useQuery({
    ...runHistoryQuery(workflowId),
    refetchInterval: ({ state }) =>
      state.data?.runs.some((run) => !isFinal(run.state) && run.state !== "pre_run")
        ? LIVE_INTERVAL_MS
        : IDLE_INTERVAL_MS,
  });
  const hasOlderRuns = useOlderRuns(workflowId, zone, month, history.data);
  const runs = history.data?.runs;
  const days = useMemo(() => slotsByDay(runs ?? [], upcoming, zone), [runs, upcoming, zone]);
  const last = upcoming.length >= TIMES_MAX ? upcoming.at(-1) : undefined;
  const isTruncated = last !== undefined && dayOf(last, zone) <= `${month}-31`;
  const go = (change: Record<string, string | undefined>) =>
    void navigate({ search: (before) => parseScheduleSearch({ ...before, ...change }), resetScroll: false });
  return (
    <Panel
      title={monthName(month)}
      actions={<MonthButtons month={month} onChange={(to) => go({ month: to, day: undefined })} />}
    >
      {history.isRefetchError && <ErrorAlert error={history.error} title="Refresh failed" />}
      <QueryResult query={history}>
        {() => (
          <>
            <MonthGrid
              month={month}
              today={today}
              selected={day}
              days={days}
              onSelect={(date) => go({ day: date === day ? undefined : date })}
            />
            <Legend zone={zone} />
            {isTruncated && <p className="px-4 pb-3 text-muted">Next {formatCount(TIMES_MAX)} slots shown</p>}
            {hasOlderRuns && <p className="px-4 pb-3 text-muted">Latest {formatCount(RUNS_MAX)} runs shown</p>}
            {day !== undefined && <DaySlots day={day} slots={days.get(day) ?? []} zone={zone} />}
          </>
        )}
      </QueryResult>
    </Panel>
  );
}

/** Load older runs until the month is covered. Returns whether the limit was reached before. */
function useOlderRuns(workflowId: string, zone: string, month: string, history: RunHistory | undefined): boolean {
  const client = useQueryClient();
  const cursor = history?.olderCursor ?? null;
  const oldest = history?.runs.at(-1);
  const isIncomplete = cursor !== null && oldest !== undefined && dayOf(oldest.scheduled_at, zone) >= `${month}-01`;
  const isLimitReached = (history?.runs.length ?? 0) >= RUNS_MAX;
  useEffect(() => {
    if (!isIncomplete || isLimitReached || cursor === null) {
      return;
    }
    // A failed page is retried with the next refresh.
    const timer = setTimeout(
      () => void loadOlderRuns(client, workflowId, cursor).catch(() => undefined),
      OLDER_PAGE_MS,
    );
    return () => clearTimeout(timer);
  }, [client, workflowId, cursor, isIncomplete, isLimitReached]);
  return isIncomplete && isLimitReached;
}

function MonthButtons({ month, onChange }: { month: string; onChange(month: string | undefined): void }) {
  return (
    <>
      <Button variant="ghost" aria-label="Previous month" onClick={() => onChange(addMonths(month, -1))}>
        ←
      </Button>
      <Button onClick={() => onChange(undefined)}>Today</Button>
      <Button variant="ghost" aria-label="Next month" onClick={() => onChange(addMonths(month, 1))}>
        →
      </Button>
    </>
  );
}

function Legend({ zone }: { zone: string }) {
  return (
    <div className="flex flex-wrap gap-x-4 gap-y-1 px-4 py-3 text-xs text-muted">
      {OUTCOMES.map((outcome) => (
        <span key={outcome} className="inline-flex items-center gap-1.5">
          <StatusIcon status={OUTCOME_STATUS[outcome]} size={13} />
          {statusText(outcome)}
        </span>
      ))}
      <span>Time zone: {shownZone(zone)}</span>
    </div>
  );
}
