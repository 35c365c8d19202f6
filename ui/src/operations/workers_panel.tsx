// Workers, queues and shards, as the server sees them.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Code, Empty, Panel, textLink } from "../components/controls";
import { Loaded, ProblemBox } from "../components/query_result";
import { Status } from "../components/status";
import { Cell, RowHead, Table } from "../components/table";
import { Ago, Took } from "../components/time";
import { shortId } from "../jobs/links";
import { count, duration, plural } from "../lib/format";
import { CountdownClock } from "../schedules/countdown_clock";
import { queuesQuery } from "./queries";
import type { Shard, TaskHeld, Worker } from "./types";

const TASKS_SHOWN = 10;
const SHARDS_SHOWN = 256;

export function Workers({ workers }: { workers: Worker[] }) {
  return (
    <Panel title={plural(workers.length, "worker")}>
      {workers.length === 0 ? (
        <Empty title="No worker is here">
          <p>
            Tasks wait until one comes: start it with <Code>windlass worker</Code>.
          </p>
        </Empty>
      ) : (
        <Table
          label="Workers"
          columns={[
            { name: "State" },
            { name: "Worker" },
            { name: "Queues" },
            { name: "Seen" },
            { name: "Runs", right: true },
            { name: "Tasks" },
          ]}
        >
          {workers.map((worker) => (
            <tr key={worker.worker_id}>
              <Cell className="align-top">
                <Status status={worker.alive ? "alive" : "stale"} />
              </Cell>
              <RowHead className="break-all align-top font-mono text-xs font-normal">{worker.worker_id}</RowHead>
              <Cell className="align-top">{worker.queues.join(", ")}</Cell>
              <Cell className="align-top">
                <Ago at={worker.seen_at} />
              </Cell>
              <Cell right className="align-top">
                {count(worker.running)}
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
    return <span className="text-muted">{running > 0 ? "not told by this broker" : "nothing now"}</span>;
  }
  const more = Math.max(running, tasks.length) - TASKS_SHOWN;
  return (
    <ul className="space-y-0.5">
      {tasks.slice(0, TASKS_SHOWN).map((task) => (
        <li key={`${task.job_id} ${task.node_id} ${task.index ?? ""}`}>
          <Task task={task} />
        </li>
      ))}
      {more > 0 && <li className="text-muted">and {count(more)} more</li>}
    </ul>
  );
}

function Task({ task }: { task: TaskHeld }) {
  const index = task.index === null ? "" : `[${task.index}]`;
  return (
    <>
      <Link
        to="/jobs/$jobId"
        params={{ jobId: task.job_id }}
        search={{ node: task.node_id }}
        title={task.job_id}
        className={textLink}
      >
        {task.node_id}
        {index}
      </Link>{" "}
      <span className="text-muted">
        of <span className="font-mono text-xs">{shortId(task.job_id)}</span>
        {task.attempt > 1 && `, attempt ${task.attempt}`}, since <Took start={task.since} end={null} />
      </span>
    </>
  );
}

export function Queues() {
  const queues = useQuery(queuesQuery());
  return (
    <Panel title="Queues">
      {queues.isRefetchError && <ProblemBox error={queues.error} title="These numbers may be out of date" />}
      <Loaded query={queues}>
        {(items) =>
          items.length === 0 ? (
            <p className="px-4 py-3 text-muted">No task was queued yet.</p>
          ) : (
            <Table
              label="Queues"
              columns={[
                { name: "Queue" },
                { name: "Waiting", right: true },
                { name: "Running", right: true },
                { name: "Oldest waits", right: true },
              ]}
            >
              {items.map((queue) => (
                <tr key={queue.queue}>
                  <RowHead className="break-all">{queue.queue}</RowHead>
                  <Cell right>{count(queue.depth)}</Cell>
                  <Cell right>{count(queue.running)}</Cell>
                  <Cell right>{queue.oldest_seconds === null ? "–" : duration(queue.oldest_seconds)}</Cell>
                </tr>
              ))}
            </Table>
          )
        }
      </Loaded>
    </Panel>
  );
}

export function Shards({ shards }: { shards: Shard[] }) {
  return (
    <Panel title={plural(shards.length, "shard")}>
      <div className="max-h-96 overflow-y-auto">
        <Table
          label="Shards"
          columns={[
            { name: "Shard", right: true },
            { name: "Owner" },
            { name: "Epoch", right: true },
            { name: "Lease" },
          ]}
        >
          {shards.slice(0, SHARDS_SHOWN).map((shard) => (
            <tr key={shard.shard}>
              <Cell right>{shard.shard}</Cell>
              <Cell className="break-all font-mono text-xs">
                {shard.owner ?? <span className="font-sans text-muted">nobody</span>}
              </Cell>
              <Cell right>{shard.epoch ?? "–"}</Cell>
              <Cell>
                <Lease shard={shard} />
              </Cell>
            </tr>
          ))}
        </Table>
      </div>
    </Panel>
  );
}

function Lease({ shard }: { shard: Shard }) {
  if (shard.owner === null) {
    return <span className="text-muted">–</span>;
  }
  if (shard.expired) {
    return <span className="font-medium text-failed">has run out</span>;
  }
  return shard.expires_at === null ? (
    <span className="text-muted">does not run out</span>
  ) : (
    <>
      for <CountdownClock at={shard.expires_at} />
    </>
  );
}
