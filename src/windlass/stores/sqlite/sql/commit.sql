-- The statements of a commit. One with `values (?, …)` is executed with as many rows as there are (BulkStatement).

-- name: job_insert
insert into jobs ({job_spec_columns}, status, round) values ({job_spec_placeholders}, 'pending', 0);

-- name: job_update
with change ({job_change_columns}) as (
values ({job_change_placeholders})
)
update jobs
   set {job_change_assignments change}
  from change
 where jobs.job_id = change.job_id;

-- name: node_put
-- The whole row each time: the engine that owns the shard is the only writer.
insert or replace into nodes ({node_columns}) values ({node_placeholders});

-- name: iteration_put
insert or replace into iterations ({iteration_columns}) values ({iteration_placeholders});

-- name: call_output_put
insert or replace into call_outputs ({call_output_columns}) values ({call_output_placeholders});

-- name: chunk_put
insert or replace into collection_chunks ({chunk_columns}) values ({chunk_placeholders});

-- name: event_page_insert
insert into events ({event_page_columns}) values ({event_page_placeholders});

-- name: request_apply
update requests set applied = true where request_id {in_texts :ids};

-- name: result_apply
-- The first verdict stays: a message that is delivered again is judged again.
update results set verdict = :verdict where verdict is null and result_id {in_texts :ids};

-- name: result_refuse
delete from results where verdict is null and result_id {in_texts :ids};

-- name: run_insert
-- Not `or replace`: a second run with the id of a slot must fail.
insert into runs ({run_columns}) values ({run_placeholders});

-- name: run_put
insert or replace into runs ({run_columns}) values ({run_placeholders});

-- name: run_event_page_insert
insert into run_events ({run_event_page_columns}) values ({run_event_page_placeholders});

-- name: run_event_delete
delete from run_events where run_id {in_texts :ids};

-- name: run_delete
delete from runs where run_id {in_texts :ids};

-- name: schedule_mark
-- Never back: a resume may have advanced it in the meantime.
with mark ({schedule_mark_columns}) as (
values ({schedule_mark_placeholders})
)
update schedules
   set slot_at = max(schedules.slot_at, mark.slot_at), seq = max(schedules.seq, mark.seq)
  from mark
 where schedules.workflow_id = mark.workflow_id;

-- name: run_request_delete
delete from run_requests where request_id {in_texts :ids};

-- name: delivery_put
insert or replace into deliveries ({delivery_columns}) values ({delivery_placeholders});
