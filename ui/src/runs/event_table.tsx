// The events of a run or a schedule.

import { useQuery } from "@tanstack/react-query";
import { apiPath, get } from "../api/client";
import type { Page, RunEvent } from "../api/types";
import { Panel } from "../components/controls";
import { QueryResult } from "../components/query_result";
import { statusText } from "../components/status";
import { Cell, RowHeader, Table } from "../components/table";
import { Timestamp } from "../components/time";
import { describeEvent } from "./event_data";

const EVENTS_MAX = 1_000;

export function EventPanel({
  of,
  id,
  refetchInterval,
}: {
  of: "runs" | "schedules";
  id: string;
  refetchInterval: number | false;
}) {
  const events = useQuery({
    queryKey: [of, id, "events"],
    queryFn: async ({ signal }) =>
      (await get<Page<RunEvent>>(apiPath(of, id, "events"), { limit: EVENTS_MAX }, signal)).items,
    refetchInterval,
  });
  return (
    <Panel title="Events">
      <QueryResult query={events}>
        {(items) =>
          items.length > 0 ? <EventTable events={items} /> : <p className="px-4 py-3 text-muted">No events</p>
        }
      </QueryResult>
    </Panel>
  );
}

function EventTable({ events }: { events: RunEvent[] }) {
  return (
    <Table label="Events" columns={[{ name: "Event" }, { name: "Details" }, { name: "Time" }]}>
      {events.map((event) => (
        <tr key={event.seq}>
          <RowHeader>{statusText(event.event_type)}</RowHeader>
          <Cell className="break-words">{describeEvent(event)}</Cell>
          <Cell>
            <Timestamp at={event.timestamp} />
          </Cell>
        </tr>
      ))}
    </Table>
  );
}
