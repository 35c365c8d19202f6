// The queues with their lengths.

import { useQuery } from "@tanstack/react-query";
import { Panel } from "../components/controls";
import { ErrorAlert, QueryResult } from "../components/query_result";
import { Cell, RowHeader, Table } from "../components/table";
import { formatCount, formatDuration } from "../lib/format";
import { queuesQuery } from "./queries";

export function QueuesPanel() {
  const queues = useQuery(queuesQuery());
  return (
    <Panel title="Queues">
      {queues.isRefetchError && <ErrorAlert error={queues.error} title="Refresh failed" />}
      <QueryResult query={queues}>
        {(items) =>
          items.length === 0 ? (
            <p className="px-4 py-3 text-muted">No queues yet</p>
          ) : (
            <Table
              label="Queues"
              columns={[
                { name: "Queue" },
                { name: "Queued", right: true },
                { name: "Running", right: true },
                { name: "Longest wait", right: true },
              ]}
            >
              {items.map((queue) => (
                <tr key={queue.queue}>
                  <RowHeader className="break-all">
                    {queue.queue}
                    {queue.unserved.map(({ handler, tasks }) => (
                      <p key={handler} className="font-normal text-waiting text-xs">
                        No worker has the handler {handler}: {formatCount(tasks)} queued
                      </p>
                    ))}
                  </RowHeader>
                  <Cell right>{formatCount(queue.depth)}</Cell>
                  <Cell right>{formatCount(queue.running)}</Cell>
                  <Cell right>{queue.oldest_seconds === null ? "–" : formatDuration(queue.oldest_seconds)}</Cell>
                </tr>
              ))}
            </Table>
          )
        }
      </QueryResult>
    </Panel>
  );
}
