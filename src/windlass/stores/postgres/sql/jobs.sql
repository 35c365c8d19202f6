-- Batches are sent as an array with one text per column (parameters.py). Each statement is one round trip and one
-- transaction.
-- Queries that every shard asks once a second take arrays with one element per shard (BatchedQuery); each row starts
-- with the position of its shard in them.

-- name: workflow_lock
-- Two deployments of the same workflow must not assign the same version.
select pg_advisory_xact_lock(22350, hashtext(:workflow_id));

-- name: job_insert
-- A job with a known key is left out. Rows are inserted in the order of their keys, so that two batches with the same
-- keys wait for each other instead of deadlocking. Of two equal keys in one batch the first one counts.
with given as (
    select given.*
      from (select :jobs::text[] as job_values) as parameter,
           unnest({job_spec_arrays job_values}) with ordinality as given ({job_spec_columns}, place)
)
insert into jobs ({job_spec_columns}, status, round)
select {job_spec_columns}, 'pending', 0
  from given order by workflow_id, idempotency_key, place
    on conflict (workflow_id, idempotency_key) where idempotency_key is not null do nothing
returning job_id;

-- name: job_list_by_idempotency_key
select {job_columns jobs}, 1
  from unnest(:workflow_ids::text[], :idempotency_keys::text[]) as wanted (workflow_id, idempotency_key)
  join jobs on jobs.workflow_id = wanted.workflow_id and jobs.idempotency_key = wanted.idempotency_key;

-- name: job_pending
select place, job_id
  from unnest(:shards::integer[], :created_before::bigint[], :limits::integer[])
       with ordinality as wanted (of_shard, before, at_most, place)
 cross join lateral (
    select job_id, created_at from jobs
     where shard = of_shard and not is_ended and status = 'pending' and created_at < before
     order by created_at, job_id limit at_most
) as found order by place, created_at, job_id;

-- name: job_restore_rows
-- One statement, so that the rows of jobs and nodes are from the same moment. First the kind of the row, then a node
-- with its columns or a job as one JSON object.
select null as job, {node_columns} from nodes where job_id = any (:job_ids::text[])
union all
select to_json(found)::text, {node_nulls}
  from (select {job_columns jobs}, coalesce(newest.last_seq, 1) as seq, newest.in_flight
          from jobs
          left join lateral (
            select last_seq, in_flight from events
             where events.job_id = jobs.job_id order by first_seq desc limit 1
          ) as newest on true
         where job_id = any (:job_ids::text[])) as found;

-- name: job_list_new
-- Jobs without stored events, which have no rows of nodes: most jobs that a batch of submits asks for. The subquery is
-- one index search per job; a join might be planned as a scan of all events.
select {job_columns}, 1 from jobs
 where job_id = any (:job_ids::text[])
   and (select true from events where events.job_id = jobs.job_id limit 1) is null;

-- name: iteration_completed
-- Only the indexes of those that completed at the first attempt, because there may be a million.
select coalesce(array_agg("index" order by "index"), '{}') from iterations
 where job_id = :job_id and number = :number and generation = :generation and status = 'completed' and attempt = 1;

-- name: iteration_restore
-- All others. Outputs are not needed to resume a loop, and may be large.
select {iteration_state_columns} from iterations
 where job_id = :job_id and number = :number and generation = :generation
   and not (status = 'completed' and attempt = 1);

-- name: request_insert
-- Returns the shard of the job; nothing when the job does not exist.
with job as (
    select shard from jobs where job_id = :job_id
), inserted as (
    insert into requests (shard, {request_columns})
    select shard, :request_id, :job_id, :kind, :created_at, :reason, :from_node, :round from job
        on conflict (request_id) do nothing
)
select shard from job;

-- name: request_list
select place, found.*
  from unnest(:shards::integer[], :limits::integer[]) with ordinality as wanted (of_shard, at_most, place)
 cross join lateral (
    select {request_columns} from requests
     where shard = of_shard and not applied order by created_at, request_id limit at_most
) as found order by place, created_at, request_id;

-- name: result_list
select place, found.*
  from unnest(:shards::integer[], :limits::integer[]) with ordinality as wanted (of_shard, at_most, place)
 cross join lateral (
    select result_id, shard, message, created_at from results
     where shard = of_shard and verdict is null order by created_at, result_id limit at_most
) as found order by place, created_at, result_id;

-- name: log_insert
select windlass_append_logs(:lines::text[]);

-- name: job_prune
-- Jobs that are locked by a commit (a retry) are skipped, and so are those of runs that have not ended.
with ended as (
    select job_id from jobs
     where is_ended and completed_at < :finished_before
       and not exists (select from runs where runs.job_id = jobs.job_id and runs.completed_at is null)
     order by completed_at limit :limit
       for update skip locked
), deleted_events as (
    delete from events using ended where events.job_id = ended.job_id
), deleted_iterations as (
    delete from iterations using ended where iterations.job_id = ended.job_id
), deleted_call_outputs as (
    delete from call_outputs using ended where call_outputs.job_id = ended.job_id
), deleted_chunks as (
    delete from collection_chunks using ended where collection_chunks.job_id = ended.job_id
), deleted_nodes as (
    delete from nodes using ended where nodes.job_id = ended.job_id
), deleted_requests as (
    delete from requests using ended where requests.job_id = ended.job_id
), deleted_results as (
    delete from results using ended where results.job_id = ended.job_id
), deleted_logs as (
    delete from logs using ended where logs.job_id = ended.job_id
)
delete from jobs using ended where jobs.job_id = ended.job_id returning jobs.job_id;
