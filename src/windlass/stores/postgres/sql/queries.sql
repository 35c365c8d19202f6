-- Batches travel as one text a column (windlass_texts). Each statement is one round trip and one transaction.

-- name: lock_workflow
-- Versions count up: two that deploy the same workflow go one after the other.
select pg_advisory_xact_lock(22350, hashtext($1));

-- name: newest_workflow
select workflow_id, version, definition, digest, created_at from workflows
 where workflow_id = $1 order by version desc limit 1;

-- name: live_workflow
select workflow_id, version, definition, digest, created_at from workflows
 where workflow_id = $1 and deleted_at is null order by version desc limit 1;

-- name: workflow_version
select workflow_id, version, definition, digest, created_at from workflows where workflow_id = $1 and version = $2;

-- name: insert_workflow
insert into workflows (workflow_id, version, digest, definition, created_at) values ($1, $2, $3, $4, $5);

-- name: insert_jobs
-- A known key leaves its job out. In the order of keys: two batches with the same keys wait for each other instead of
-- locking each other out. Of two equal keys in one batch the first one counts.
with given as (
    select * from unnest(windlass_texts($1), windlass_texts($2), $3::text::integer[], windlass_texts($4),
                         $5::text::bigint[], $6::text::integer[], $7::text::integer[], windlass_texts($8),
                         windlass_texts($9), $10::text::bigint[]) with ordinality
        as given (job_id, workflow_id, version, input, created_at, shard, priority, idempotency_key, request_digest,
                  scheduled_at, place)
)
insert into jobs (job_id, workflow_id, version, input, created_at, shard, priority, idempotency_key, request_digest,
                  scheduled_at, status, round)
select job_id, workflow_id, version, input, created_at, shard, priority, idempotency_key, request_digest,
       scheduled_at, 'pending', 0
  from given order by workflow_id, idempotency_key, place
    on conflict (workflow_id, idempotency_key) where idempotency_key is not null do nothing
returning job_id;

-- name: jobs_by_idempotency_keys
select job_id, workflow_id, version, shard, status, input, round, priority, created_at, started_at, completed_at,
       deadline_at, error, idempotency_key, request_digest, scheduled_at
  from unnest($1::text[], $2::text[]) as wanted (workflow_id, idempotency_key)
  join jobs using (workflow_id, idempotency_key);

-- name: commit
-- The shards whose epoch is not the caller's, and what it is; when there are any, nothing was written.
select stale_shard, newest_epoch from windlass_commit(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48,
    $49, $50, $51, $52, $53, $54, $55, $56, $57, $58, $59, $60, $61, $62
);

-- name: insert_request
-- The shard of the job, or nothing when there is no such job.
with job as (
    select shard from jobs where job_id = $2
), made as (
    insert into requests (request_id, job_id, shard, kind, created_at, reason, from_node)
    select $1, $2, shard, $3, $4, $5, $6 from job
        on conflict (request_id) do nothing
)
select shard from job;

-- name: unapplied_requests
select request_id from requests where not applied and request_id = any ($1::text[]);

-- name: waiting_requests
-- For many shards at once, each with a bound of its own; the rows begin with the place of their shard.
select place, found.*
  from unnest($1::integer[], $2::integer[]) with ordinality as asked (of_shard, at_most, place)
 cross join lateral (
    select request_id, job_id, kind, created_at, reason, from_node from requests
     where shard = of_shard and not applied order by created_at, request_id limit at_most
) as found order by place, created_at, request_id;

-- name: unfinished_jobs
select job_id from jobs where shard = $1 and not is_ended order by created_at, job_id;

-- name: pending_jobs
select place, job_id
  from unnest($1::integer[], $2::bigint[], $3::integer[]) with ordinality as asked (of_shard, before, at_most, place)
 cross join lateral (
    select job_id, created_at from jobs
     where shard = of_shard and not is_ended and status = 'pending' and created_at < before
     order by created_at, job_id limit at_most
) as found order by place, created_at, job_id;

-- name: job
-- The last sequence number is read from the events: keeping it in the row would mean a write of it in every commit. The
-- first event, that the job was made, is the row itself.
select job_id, workflow_id, version, shard, status, input, round, priority, created_at, started_at, completed_at,
       deadline_at, error, idempotency_key, request_digest, scheduled_at,
       coalesce((select last_seq from events
                  where events.job_id = jobs.job_id order by first_seq desc limit 1), 1) as seq
  from jobs where job_id = $1;

-- name: job_positions
select job_id,
       coalesce((select last_seq from events where events.job_id = jobs.job_id order by first_seq desc limit 1), 1),
       status
  from jobs where job_id = any ($1::text[]);

-- name: jobs_newest
select job_id, workflow_id, version, shard, status, input, round, priority, created_at, started_at, completed_at,
       deadline_at, error, idempotency_key, request_digest, scheduled_at, 0 as seq
  from jobs
 where ($1::text is null or workflow_id = $1)
   and ($2::text is null or status = $2)
   and ($3::bigint is null or (created_at, job_id) < ($3, $4::text))
 order by created_at desc, job_id desc limit $5;

-- name: all_nodes_of_job
select * from node_list where job_id = $1;

-- name: job_with_nodes
-- One statement, so that the row of a job and those of its nodes tell of the same moment. Jobs come as JSON objects.
select null as job, nodes.* from nodes where job_id = any ($1::text[])
union all
select to_json(found)::text, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
       null, null
  from (select job_id, workflow_id, version, shard, status, input, round, priority, created_at, started_at,
               completed_at, deadline_at, error, idempotency_key, request_digest, scheduled_at,
               coalesce(newest.last_seq, 1) as seq, newest.in_flight
          from jobs
          left join lateral (
            select last_seq, in_flight from events
             where events.job_id = jobs.job_id order by first_seq desc limit 1
          ) as newest on true
         where job_id = any ($1::text[])) as found;

-- name: untouched_jobs
-- Those to which nothing has happened yet, so that there are no rows of nodes: what a batch of submits asks for. A
-- question for each of them, not a join: that one might read all events there ever were.
select job_id, workflow_id, version, shard, status, input, round, priority, created_at, started_at, completed_at,
       deadline_at, error, idempotency_key, request_digest, scheduled_at, 1 as seq
  from jobs
 where job_id = any ($1::text[])
   and (select true from events where events.job_id = jobs.job_id and first_seq > 1 limit 1) is null;

-- name: node_of_job
select * from node_list where job_id = $1 and node_id = $2;

-- name: chunks_of_loop
select body from collection_chunks where job_id = $1 and number = $2 and generation = $3 order by chunk;

-- name: completed_of_loop
-- Of those that completed at the first attempt only the numbers, for there may be a million.
select coalesce(array_agg("index" order by "index"), '{}') from iterations
 where job_id = $1 and number = $2 and generation = $3 and status = 'completed' and attempt = 1;

-- name: iterations_to_restore
-- All others. Outputs are not needed to go on with a loop, and may be large.
select job_id, number, generation, "index", status, attempt, attempts_before, losses, first_seq, dispatched_at,
       started_at, completed_at, due_at, worker_id, null, null, null, progress
  from iterations where job_id = $1 and number = $2 and generation = $3 and not (status = 'completed' and attempt = 1);

-- name: iterations_of_loop
select * from iterations
 where job_id = $1 and number = $2 and generation = $3 and "index" > $5 and ($4::text is null or status = $4)
 order by "index" limit $6;

-- name: outputs_of_loop
select "index", output from iterations
 where job_id = $1 and number = $2 and generation = $3 and "index" >= $4 and "index" < $5 and output is not null
 order by "index";

-- name: outputs_of_calls
select output from call_outputs
 where job_id = $1 and number = $2 and generation = $3 and "index" = $4 and call <= $5 order by call;

-- name: events_of_job
-- Numbers have no gaps: the first page that is wanted begins at or before the first number that is, and the last one at
-- or before the last number. Not from the view of all pages: that would read all pages of the job.
select body from (
    select first_seq, body from job_created_pages where job_id = $1 and $2::bigint = 0
    union all
    select first_seq, body from events
     where job_id = $1 and first_seq <= $2 + $3::bigint and last_seq > $2
       and first_seq >= coalesce((select max(first_seq) from events where job_id = $1 and first_seq <= $2 + 1), 0)
) as found order by first_seq;

-- name: prune
-- Jobs that somebody works on at this moment (a retry) are left for another time, and so are those of runs that have
-- not ended.
with gone as (
    select job_id from jobs
     where is_ended and completed_at < $1
       and not exists (select from runs where runs.job_id = jobs.job_id and runs.completed_at is null)
     order by completed_at limit $2
       for update skip locked
), gone_events as (
    delete from events using gone where events.job_id = gone.job_id
), gone_iterations as (
    delete from iterations using gone where iterations.job_id = gone.job_id
), gone_call_outputs as (
    delete from call_outputs using gone where call_outputs.job_id = gone.job_id
), gone_chunks as (
    delete from collection_chunks using gone where collection_chunks.job_id = gone.job_id
), gone_nodes as (
    delete from nodes using gone where nodes.job_id = gone.job_id
), gone_requests as (
    delete from requests using gone where requests.job_id = gone.job_id
), gone_results as (
    delete from results using gone where results.job_id = gone.job_id
), gone_logs as (
    delete from logs using gone where logs.job_id = gone.job_id
)
delete from jobs using gone where jobs.job_id = gone.job_id returning jobs.job_id;
