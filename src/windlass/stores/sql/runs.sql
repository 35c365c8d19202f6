-- Schedules, runs and deliveries.

-- name: schedule_put
-- A schedule that had been removed starts again: slots of the time in between are skipped.
insert into schedules (workflow_id, version, is_paused, slot_at, created_at, changed_at, is_gone, seq)
values (:workflow_id, :version, false, :now, :now, :now, false, 0)
    on conflict (workflow_id) do update
   set version = excluded.version, changed_at = excluded.changed_at, is_gone = false,
       slot_at = case when schedules.is_gone then excluded.slot_at else schedules.slot_at end;

-- name: schedule_remove
update schedules set changed_at = :now, is_gone = true, version = coalesce(:version, version)
 where workflow_id = :workflow_id;

-- name: schedule_pause
update schedules
   set changed_at = case when is_paused = :paused then changed_at else :now end,
       slot_at = case when is_paused and not :paused then {greatest}(slot_at, :now) else slot_at end,
       is_paused = :paused
 where workflow_id = :workflow_id and not is_gone returning {schedule_columns};

-- name: schedule_list
select {schedule_columns} from schedules
 where workflow_id > :after and not is_gone order by workflow_id limit :limit;

-- name: schedule_get
select {schedule_columns} from schedules where workflow_id = :workflow_id and not is_gone;

-- name: schedule_list_changed
select {schedule_columns} from schedules
 where changed_at >= :since and workflow_id > :after order by workflow_id limit :limit;

-- name: run_get
select {run_columns} from runs where run_id = :run_id;

-- name: run_of_job
select {run_columns} from runs where job_id = :job_id order by created_at desc, run_id desc limit 1;

-- name: run_list
select {run_columns} from runs
 where (workflow_id = :workflow_id or :workflow_id is null)
   and (state = :state or :state is null)
   and ((scheduled_at, run_id) < (:before_at, :before_id) or :before_at is null)
 order by scheduled_at desc, run_id desc limit :limit;

-- name: run_existing
select run_id from runs where run_id {in_texts :run_ids};

-- name: run_unfinished
select {run_columns} from runs where shard = :shard and completed_at is null order by scheduled_at, run_id;

-- name: run_counts
select workflow_id, state, count(*) from runs group by workflow_id, state;

-- name: run_event_pages
select body from run_events
 where run_id = :run_id and last_seq > :after and first_seq <= :after + :limit order by first_seq;

-- name: schedule_event_pages
-- Old pages are deleted, so the first event may have any number. Each page has at least one event.
select body from run_events
 where run_id = '' and workflow_id = :workflow_id and last_seq > :after order by first_seq limit :limit;

-- name: run_request_insert
insert into run_requests ({run_request_columns})
values (:request_id, :workflow_id, :shard, :kind, :created_at, :run_id, :reason, :since, :until)
    on conflict (request_id) do nothing;

-- name: run_request_list
select {run_request_columns} from run_requests
 where shard {in_integers :shards} order by created_at, request_id limit :limit;

-- name: run_request_unapplied
select request_id from run_requests where request_id {in_texts :request_ids};

-- name: delivery_get
select {delivery_columns} from deliveries where delivery_id = :delivery_id;

-- name: delivery_list
select {delivery_columns} from deliveries
 where (workflow_id = :workflow_id or :workflow_id is null)
   and (job_id = :job_id or :job_id is null)
   and (outcome = :outcome or :outcome is null)
   and ((sent_at, delivery_id) < (:before_at, :before_id) or :before_at is null)
 order by sent_at desc, delivery_id desc limit :limit;

-- name: delivery_delete_of_jobs
delete from deliveries where job_id {in_texts :job_ids};

-- name: run_heartbeat_totals
-- One row per shard that ever had active runs.
select shard, total from run_heartbeats;
