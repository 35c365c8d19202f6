// The calendar of a schedule: past slots by how they went, coming ones, and the slots of a day when one is picked.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useMemo } from "react";
import { LIVE_MS } from "../api/queries";
import type { Schedule } from "../api/types";
import { Button, Panel } from "../components/controls";
import { Loaded, ProblemBox } from "../components/query_result";
import { StatusIcon } from "../components/status";
import { count } from "../lib/format";
import { isFinal } from "../runs/lifecycle";
import { dayOf, monthAfter, monthName, OUTCOMES, slotsByDay } from "./calendar";
import { DaySlots } from "./day_slots";
import { MonthGrid, SHAPES } from "./month_grid";
import { gatheredQuery, gatherOlder, TIMES_MAX } from "./queries";
import type { Gathered } from "./run_history";
import { scheduleSearchOf } from "./search";

const IDLE_MS = 10_000;
// Older runs come page by page, as far back as the month needs, this many at most.
const OLDER_MS = 300;
const RUNS_MAX = 3_000;

const route = getRouteApi("/schedules/$workflowId");

export function CalendarPanel({ schedule, coming }: { schedule: Schedule; coming: string[] }) {
  const { workflow_id: workflowId, timezone: zone } = schedule;
  const today = dayOf(new Date().toISOString(), zone);
  const { month = today.slice(0, 7), day } = route.useSearch();
  const navigate = route.useNavigate();
  const gathered = useQuery({
    ...gatheredQuery(workflowId),
    refetchInterval: ({ state }) =>
      state.data?.runs.some((run) => !isFinal(run.state) && run.state !== "pre_run") ? LIVE_MS : IDLE_MS,
  });
  const isBounded = useOlderRuns(workflowId, zone, month, gathered.data);
  const runs = gathered.data?.runs;
  const days = useMemo(() => slotsByDay(runs ?? [], coming, zone), [runs, coming, zone]);
  const last = coming.length >= TIMES_MAX ? coming.at(-1) : undefined;
  const isCut = last !== undefined && dayOf(last, zone) <= `${month}-31`;
  const go = (change: Record<string, string | undefined>) =>
    void navigate({ search: (before) => scheduleSearchOf({ ...before, ...change }), resetScroll: false });
  return (
    <Panel title={monthName(month)} actions={<Months month={month} onGo={(to) => go({ month: to, day: undefined })} />}>
      {gathered.isRefetchError && <ProblemBox error={gathered.error} title="The calendar may be out of date" />}
      <Loaded query={gathered}>
        {() => (
          <>
            <MonthGrid
              month={month}
              today={today}
              picked={day}
              days={days}
              onPick={(date) => go({ day: date === day ? undefined : date })}
            />
            <Legend zone={zone} />
            {isCut && (
              <p className="px-4 pb-3 text-muted">Of the slots to come, the next {count(TIMES_MAX)} are shown.</p>
            )}
            {isBounded && (
              <p className="px-4 pb-3 text-muted">
                Only the newest runs of this schedule are shown; older days are empty.
              </p>
            )}
            {day !== undefined && <DaySlots day={day} slots={days.get(day) ?? []} zone={zone} />}
          </>
        )}
      </Loaded>
    </Panel>
  );
}

/** Reads older runs until the month is full; true when there are more than are read. */
function useOlderRuns(workflowId: string, zone: string, month: string, gathered: Gathered | undefined): boolean {
  const client = useQueryClient();
  const cursor = gathered?.olderCursor ?? null;
  const oldest = gathered?.runs.at(-1);
  const isShort = cursor !== null && oldest !== undefined && dayOf(oldest.scheduled_at, zone) >= `${month}-01`;
  const isBounded = (gathered?.runs.length ?? 0) >= RUNS_MAX;
  useEffect(() => {
    if (!isShort || isBounded || cursor === null) {
      return;
    }
    // One that fails is asked for again when the newest are read next.
    const timer = setTimeout(() => void gatherOlder(client, workflowId, cursor).catch(() => undefined), OLDER_MS);
    return () => clearTimeout(timer);
  }, [client, workflowId, cursor, isShort, isBounded]);
  return isShort && isBounded;
}

function Months({ month, onGo }: { month: string; onGo(month: string | undefined): void }) {
  return (
    <>
      <Button look="quiet" aria-label="The month before" onClick={() => onGo(monthAfter(month, -1))}>
        ←
      </Button>
      <Button onClick={() => onGo(undefined)}>Today</Button>
      <Button look="quiet" aria-label="The month after" onClick={() => onGo(monthAfter(month, 1))}>
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
          <StatusIcon status={SHAPES[outcome]} size={13} />
          {outcome === "coming" ? "to come" : outcome}
        </span>
      ))}
      <span>Days on the clock of {zone}</span>
    </div>
  );
}
