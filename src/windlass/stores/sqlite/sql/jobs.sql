-- name: job_by_idempotency_key
select {job_columns}, 1 from jobs where workflow_id = :workflow_id and idempotency_key = :idempotency_key;

-- name: job_pending
select job_id from jobs
 where shard = :shard and not is_ended and status = 'pending' and created_at < :created_before
 order by created_at, job_id limit :limit;

-- name: job_shard
select shard from jobs where job_id = :job_id;

-- name: job_nodes
-- Only nodes with a row.
select {node_columns} from nodes where job_id = :job_id;

-- name: job_in_flight
select in_flight from events where job_id = :job_id order by first_seq desc limit 1;

-- name: iteration_restore
-- Outputs are not needed to resume a loop, and may be large.
select {iteration_state_columns} from iterations
 where job_id = :job_id and number = :number and generation = :generation;

-- name: request_insert
insert into requests (shard, {request_columns})
values (:shard, :request_id, :job_id, :kind, :created_at, :reason, :from_node, :round)
    on conflict (request_id) do nothing;

-- name: request_list
select {request_columns} from requests
 where shard = :shard and not applied order by created_at, request_id limit :limit;

-- name: result_list
select result_id, shard, message, created_at from results
 where shard = :shard and verdict is null order by created_at, result_id limit :limit;

-- name: log_insert
insert into logs ({log_columns}) values ({log_placeholders});

-- name: job_ended
-- Not the job of a run that has not ended: it may be retried.
select job_id from jobs where is_ended and completed_at < :finished_before
   and not exists (select 1 from runs where runs.job_id = jobs.job_id and runs.completed_at is null)
 order by completed_at limit :limit;

-- name: event_delete
delete from events where job_id {in_texts :job_ids};

-- name: iteration_delete
delete from iterations where job_id {in_texts :job_ids};

-- name: call_output_delete
delete from call_outputs where job_id {in_texts :job_ids};

-- name: chunk_delete
delete from collection_chunks where job_id {in_texts :job_ids};

-- name: node_delete
delete from nodes where job_id {in_texts :job_ids};

-- name: request_delete
delete from requests where job_id {in_texts :job_ids};

-- name: result_delete
delete from results where job_id {in_texts :job_ids};

-- name: log_delete
delete from logs where job_id {in_texts :job_ids};

-- name: job_delete
delete from jobs where job_id {in_texts :job_ids};
