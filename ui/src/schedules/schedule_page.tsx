// One schedule: when it fires next, a calendar of what was and what comes, and what can be done with it.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { Schedule } from "../api/types";
import { Code, PageHead, Panel, textLink } from "../components/controls";
import { Fact, Facts } from "../components/details";
import { JsonTree } from "../components/json_tree";
import { Loaded } from "../components/query_result";
import { Cell, Table } from "../components/table";
import { Ago } from "../components/time";
import { duration } from "../lib/format";
import { besideClock, clockInWords, localClock } from "./calendar";
import { CalendarPanel } from "./calendar_panel";
import { CountdownClock } from "./countdown_clock";
import { rhythmInWords } from "./describe_schedule";
import { NextSlot } from "./list_page";
import { type NextTimes, nextTimesQuery, scheduleQuery } from "./queries";
import { Steering } from "./schedule_actions";

const SEEN_AGAIN_MS = 5_000;
const NEXT_AGAIN_MS = 10_000;
const NEXT_SHOWN = 8;

const route = getRouteApi("/schedules/$workflowId");

export function SchedulePage() {
  const { workflowId } = route.useParams();
  const schedule = useQuery({ ...scheduleQuery(workflowId), refetchInterval: SEEN_AGAIN_MS });
  return (
    <>
      <PageHead
        title={workflowId}
        about={schedule.data && rhythmInWords(schedule.data)}
        actions={schedule.data && <Steering schedule={schedule.data} whole />}
      />
      <Loaded query={schedule}>{(found) => <Page key={workflowId} schedule={found} />}</Loaded>
    </>
  );
}

function Page({ schedule }: { schedule: Schedule }) {
  const next = useQuery({ ...nextTimesQuery(schedule.workflow_id), refetchInterval: NEXT_AGAIN_MS });
  const isDue = schedule.enabled && !schedule.paused;
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1fr)_26rem]">
      <CalendarPanel schedule={schedule} coming={isDue ? (next.data?.times ?? []) : []} />
      <div className="space-y-4">
        <ScheduleFacts schedule={schedule} />
        <Panel title="Next slots">
          <Loaded query={next}>{(times) => <NextTable times={times} isDue={isDue} />}</Loaded>
        </Panel>
      </div>
    </div>
  );
}

function ScheduleFacts({ schedule }: { schedule: Schedule }) {
  const { workflow_id: workflowId } = schedule;
  return (
    <Panel title="Facts">
      <Facts>
        <Fact name="Next">
          <NextSlot schedule={schedule} />
        </Fact>
        {schedule.cron !== null && (
          <Fact name="Expression">
            <Code>{schedule.cron}</Code>
          </Fact>
        )}
        <Fact name="Clock">{schedule.timezone}</Fact>
        {schedule.jitter_seconds > 0 && (
          <Fact name="Jitter">up to {duration(schedule.jitter_seconds)} after its slot</Fact>
        )}
        <Fact name="Workflow">
          <Link to="/workflows/$workflowId" params={{ workflowId }} className={textLink}>
            {workflowId}
          </Link>
          <span className="text-muted">@{schedule.version}</span>
        </Fact>
        <Fact name="Runs">
          <Link to="/runs" search={{ workflow: workflowId }} className={textLink}>
            All its runs
          </Link>
        </Fact>
        {schedule.changed_at !== null && (
          <Fact name="Changed">
            <Ago at={schedule.changed_at} />
          </Fact>
        )}
        {Object.keys(schedule.input_data).length > 0 && (
          <Fact name="Input">
            <JsonTree value={schedule.input_data} />
          </Fact>
        )}
      </Facts>
    </Panel>
  );
}

function NextTable({ times, isDue }: { times: NextTimes; isDue: boolean }) {
  if (times.times.length === 0) {
    return <p className="px-4 py-3 text-muted">Nothing is due any more.</p>;
  }
  const shown = times.times.slice(0, NEXT_SHOWN);
  const isElsewhere = shown.some((at, place) => localClock(at).slice(0, 19) !== times.local_times[place]?.slice(0, 19));
  return (
    <>
      {!isDue && <p className="px-4 pt-3 text-waiting">It is paused: these will not fire until it is resumed.</p>}
      <Table
        label="Next slots"
        columns={[
          { name: times.timezone },
          ...(isElsewhere ? [{ name: "Your clock" }] : []),
          { name: "In", right: true },
        ]}
      >
        {shown.map((at, place) => (
          <tr key={at}>
            <Cell className="whitespace-nowrap tabular-nums">{clockInWords(times.local_times[place] ?? at)}</Cell>
            {isElsewhere && (
              <Cell className="whitespace-nowrap tabular-nums text-muted">
                {besideClock(localClock(at), times.local_times[place] ?? at)}
              </Cell>
            )}
            <Cell right>
              <CountdownClock at={at} />
            </Cell>
          </tr>
        ))}
      </Table>
    </>
  );
}
