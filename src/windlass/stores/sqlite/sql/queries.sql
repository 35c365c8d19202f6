-- Statements with one `values (?, …)` are executed with as many rows as there are (see spread.py). Lists of ids travel
-- as one JSON array.

-- name: newest_workflow
select workflow_id, version, definition, digest, created_at from workflows
 where workflow_id = ? order by version desc limit 1;

-- name: live_workflow
select workflow_id, version, definition, digest, created_at from workflows
 where workflow_id = ? and deleted_at is null order by version desc limit 1;

-- name: workflow_version
select workflow_id, version, definition, digest, created_at from workflows where workflow_id = ? and version = ?;

-- name: insert_workflow
insert into workflows (workflow_id, version, digest, definition, created_at) values (?, ?, ?, ?, ?);

-- name: job_by_idempotency_key
select * from jobs where workflow_id = ? and idempotency_key = ?;

-- name: insert_jobs
insert into jobs (job_id, workflow_id, version, input, created_at, shard, priority, idempotency_key, request_digest,
                  scheduled_at, status, round)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', 0);

-- name: insert_events
insert into events (job_id, first_seq, last_seq, body, in_flight) values (?, ?, ?, ?, ?);

-- name: put_nodes
-- The whole row each time: a node's row is what the engine knows of it, and nothing else writes it.
insert or replace into nodes (job_id, node_id, status, attempt, attempts_before, losses, first_seq, dispatched_at,
                              started_at, completed_at, due_at, worker_id, output, error, meta, number, progress)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_iterations
insert or replace into iterations (job_id, number, generation, "index", status, attempt, attempts_before, losses, first_seq,
                              dispatched_at, started_at, completed_at, due_at, worker_id, output, error, meta, progress)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_call_outputs
insert or replace into call_outputs (job_id, number, generation, "index", call, output) values (?, ?, ?, ?, ?, ?);

-- name: put_chunks
insert or replace into collection_chunks (job_id, number, generation, chunk, body) values (?, ?, ?, ?, ?);

-- name: update_jobs
with change (job_id, status, round, started_at, completed_at, deadline_at, error) as (
values (?, ?, ?, ?, ?, ?, ?)
)
update jobs
   set status = change.status, round = change.round, started_at = change.started_at,
       completed_at = change.completed_at, deadline_at = change.deadline_at, error = change.error
  from change
 where jobs.job_id = change.job_id;

-- name: apply_requests
update requests set applied = 1 where request_id in (select value from json_each(?));

-- name: insert_request
insert or ignore into requests (request_id, job_id, shard, kind, created_at, reason, from_node)
values (?, ?, ?, ?, ?, ?, ?);

-- name: unapplied_requests
select request_id from requests where applied = 0 and request_id in (select value from json_each(?));

-- name: waiting_requests
select request_id, job_id, kind, created_at, reason, from_node from requests
 where shard = ? and applied = 0 order by created_at, request_id limit ?;

-- name: unfinished_jobs
select job_id from jobs where shard = ? and status in ('pending', 'running') order by created_at, job_id;

-- name: pending_jobs
-- Both conditions on the status: the first is the one that the partial index is known by.
select job_id from jobs
 where shard = ? and status in ('pending', 'running') and status = 'pending' and created_at < ?
 order by created_at, job_id limit ?;

-- name: job
-- The last sequence number is read from the events: keeping it in the row would mean a write of it in every commit. The
-- first event, that the job was made, is the row itself.
select jobs.*, coalesce((select max(last_seq) from events where events.job_id = jobs.job_id), 1) as seq
  from jobs where job_id = ?;

-- name: job_positions
select job_id, coalesce((select max(last_seq) from events where events.job_id = jobs.job_id), 1), status
  from jobs where job_id in (select value from json_each(?));

-- name: jobs_newest
select *, 0 as seq from jobs
 where (:workflow_id is null or workflow_id = :workflow_id)
   and (:status is null or status = :status)
   and (:before_at is null or (created_at, job_id) < (:before_at, :before_id))
 order by created_at desc, job_id desc limit :limit;

-- name: nodes_of_job
select * from nodes where job_id = ?;

-- name: in_flight_of_job
select in_flight from events where job_id = ? order by first_seq desc limit 1;

-- name: all_nodes_of_job
select * from node_list where job_id = ?;

-- name: node_of_job
select * from node_list where job_id = ? and node_id = ?;

-- name: chunks_of_loop
select body from collection_chunks where job_id = ? and number = ? and generation = ? order by chunk;

-- name: iterations_to_restore
-- Outputs are not needed to go on with a loop, and may be large.
select job_id, number, generation, "index", status, attempt, attempts_before, losses, first_seq, dispatched_at,
       started_at, completed_at, due_at, worker_id, null, null, null, progress
  from iterations where job_id = ? and number = ? and generation = ?;

-- name: iterations_of_loop
select * from iterations
 where job_id = :job_id and number = :number and generation = :generation and "index" > :after
   and (:status is null or status = :status)
 order by "index" limit :limit;

-- name: outputs_of_loop
select "index", output from iterations
 where job_id = ? and number = ? and generation = ? and "index" >= ? and "index" < ? and output is not null
 order by "index";

-- name: outputs_of_calls
select output from call_outputs
 where job_id = ? and number = ? and generation = ? and "index" = ? and call <= ? order by call;

-- name: events_of_job
-- The first page that is wanted is the last one that begins at or before the first number: found by the index, however
-- many pages come before it. Not from the view of all pages: that would put them all in order first.
select body, first_seq from job_created_pages where job_id = ?1 and ?2 = 0
union all
select body, first_seq from events
 where job_id = ?1 and last_seq > ?2
   and first_seq >= coalesce((select max(first_seq) from events where job_id = ?1 and first_seq <= ?2 + 1), 0)
 order by first_seq limit ?3;

-- name: ended_jobs
-- Not the job of a run that has not ended: it may be retried.
select job_id from jobs where completed_at < ? and status in ('completed', 'failed', 'cancelled')
   and not exists (select 1 from runs where runs.job_id = jobs.job_id and runs.completed_at is null)
 order by completed_at limit ?;

-- name: delete_events
delete from events where job_id in (select value from json_each(?));

-- name: delete_nodes
delete from nodes where job_id in (select value from json_each(?));

-- name: delete_requests
delete from requests where job_id in (select value from json_each(?));

-- name: delete_jobs
delete from jobs where job_id in (select value from json_each(?));

-- name: delete_logs
delete from logs where job_id in (select value from json_each(?));

-- name: delete_results
delete from results where job_id in (select value from json_each(?));

-- name: delete_iterations
delete from iterations where job_id in (select value from json_each(?));

-- name: delete_call_outputs
delete from call_outputs where job_id in (select value from json_each(?));

-- name: delete_chunks
delete from collection_chunks where job_id in (select value from json_each(?));
