// The workers and the tasks they run.

import { Link } from "@tanstack/react-router";
import { Code, EmptyState, linkClass, Panel } from "../components/controls";
import { Status } from "../components/status";
import { Cell, RowHeader, Table } from "../components/table";
import { Duration, RelativeTime } from "../components/time";
import { shortId } from "../jobs/links";
import { formatCount, pluralize } from "../lib/format";
import type { Worker, WorkerTask } from "./types";

const TASKS_MAX = 10;

export function WorkersPanel({ workers }: { workers: Worker[] }) {
  return (
    <Panel title={pluralize(workers.length, "worker")}>
      {workers.length === 0 ? (
        <EmptyState title="No workers connected">
          Tasks stay queued until a worker starts. Run <Code>windlass worker</Code>.
        </EmptyState>
      ) : (
        <Table
          label="Workers"
          columns={[
            { name: "Status" },
            { name: "Worker" },
            { name: "Queues" },
            { name: "Last heartbeat" },
            { name: "Running", right: true },
            { name: "Tasks" },
          ]}
        >
          {workers.map((worker) => (
            <tr key={worker.worker_id}>
              <Cell className="align-top">
                <Status status={worker.alive ? "alive" : "stale"} />
              </Cell>
              <RowHeader className="break-all align-top font-mono text-xs font-normal">{worker.worker_id}</RowHeader>
              <Cell className="align-top">{worker.queues.join(", ")}</Cell>
              <Cell className="align-top">
                <RelativeTime at={worker.seen_at} />
              </Cell>
              <Cell right className="align-top">
                {formatCount(worker.running)}
              </Cell>
              <Cell className="min-w-64 align-top">
                <Tasks worker={worker} />
              </Cell>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function Tasks({ worker: { tasks, running } }: { worker: Worker }) {
  if (tasks.length === 0) {
    // Some brokers do not list the tasks of a worker.
    return <span className="text-muted">{running > 0 ? "Unknown" : "None"}</span>;
  }
  const hiddenCount = Math.max(running, tasks.length) - TASKS_MAX;
  return (
    <ul className="space-y-0.5">
      {tasks.slice(0, TASKS_MAX).map((task) => (
        <li key={`${task.job_id} ${task.node_id} ${task.index ?? ""}`}>
          <Task task={task} />
        </li>
      ))}
      {hiddenCount > 0 && <li className="text-muted">{formatCount(hiddenCount)} more</li>}
    </ul>
  );
}

function Task({ task }: { task: WorkerTask }) {
  const index = task.index === null ? "" : `[${task.index}]`;
  return (
    <>
      <Link
        to="/jobs/$jobId"
        params={{ jobId: task.job_id }}
        search={{ node: task.node_id }}
        title={task.job_id}
        className={linkClass}
      >
        {task.node_id}
        {index}
      </Link>{" "}
      <span className="text-muted">
        job <span className="font-mono text-xs">{shortId(task.job_id)}</span>
        {task.attempt > 1 && `, attempt ${task.attempt}`}, <Duration start={task.since} end={null} />
      </span>
    </>
  );
}
