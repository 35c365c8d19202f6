-- Schedules, runs and deliveries.

-- name: put_schedule
-- A schedule that was gone begins anew: what fell into that time is not made up for.
insert into schedules (workflow_id, version, is_paused, slot_at, created_at, changed_at, is_gone, seq)
values (?1, ?2, 0, ?3, ?3, ?3, 0, 0)
on conflict (workflow_id) do update
   set version = excluded.version, changed_at = excluded.changed_at, is_gone = 0,
       slot_at = case when is_gone then excluded.slot_at else slot_at end;

-- name: drop_schedule
update schedules set changed_at = ?, is_gone = 1, version = coalesce(?, version) where workflow_id = ?;

-- name: mark_schedules
-- Never back: a resume may have moved it on meanwhile.
with mark (workflow_id, slot_at, seq) as (
values (?, ?, ?)
)
update schedules
   set slot_at = max(schedules.slot_at, mark.slot_at), seq = max(schedules.seq, mark.seq)
  from mark
 where schedules.workflow_id = mark.workflow_id;

-- name: pause_schedule
update schedules
   set changed_at = case when is_paused = ?2 then changed_at else ?3 end,
       slot_at = case when is_paused and not ?2 then max(slot_at, ?3) else slot_at end,
       is_paused = ?2
 where workflow_id = ?1 and not is_gone returning *;

-- name: schedules_by_id
select * from schedules where workflow_id > ? and not is_gone order by workflow_id limit ?;

-- name: schedule
select * from schedules where workflow_id = ? and not is_gone;

-- name: changed_schedules
select * from schedules where changed_at >= ? and workflow_id > ? order by workflow_id limit ?;

-- name: insert_runs
-- Not `or replace`: a second run under the id of a slot must fail.
insert into runs (run_id, workflow_id, version, shard, state, previous_state, scheduled_at, created_at, state_at,
                  completed_at, job_id, attempt, detail, succeeded)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_runs
insert or replace into runs (run_id, workflow_id, version, shard, state, previous_state, scheduled_at, created_at,
                             state_at, completed_at, job_id, attempt, detail, succeeded)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: withdraw_runs
delete from runs where run_id in (select value from json_each(?));

-- name: run
select * from runs where run_id = ?;

-- name: run_of_job
select * from runs where job_id = ? order by created_at desc, run_id desc limit 1;

-- name: runs_newest
select * from runs
 where (:workflow_id is null or workflow_id = :workflow_id)
   and (:state is null or state = :state)
   and (:before_at is null or (scheduled_at, run_id) < (:before_at, :before_id))
 order by scheduled_at desc, run_id desc limit :limit;

-- name: known_runs
select run_id from runs where run_id in (select value from json_each(?));

-- name: active_runs
select * from runs where shard = ? and completed_at is null order by scheduled_at, run_id;

-- name: last_successes
-- One search of an index for each workflow.
select name.value,
       (select succeeded from runs where workflow_id = name.value and succeeded is not null
         order by completed_at desc limit 1) as succeeded
  from json_each(?) as name;

-- name: count_runs
select workflow_id, state, count(*) from runs group by workflow_id, state;

-- name: insert_run_request
insert or ignore into run_requests (request_id, workflow_id, shard, kind, created_at, run_id, reason, since, until)
values (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: waiting_run_requests
select request_id, workflow_id, shard, kind, created_at, run_id, reason, since, until from run_requests
 where shard in (select value from json_each(?)) order by created_at, request_id limit ?;

-- name: unapplied_run_requests
select request_id from run_requests where request_id in (select value from json_each(?));

-- name: apply_run_requests
delete from run_requests where request_id in (select value from json_each(?));

-- name: beat_runs
insert or replace into run_heartbeats (shard, at) values (?, ?);

-- name: runs_beaten
select at from run_heartbeats where shard = ?;

-- name: put_deliveries
insert or replace into deliveries (delivery_id, job_id, workflow_id, node_id, attempt, url, outcome, status, error,
                                   response, duration_microseconds, sent_at, params)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: delivery
select * from deliveries where delivery_id = ?;

-- name: deliveries_newest
select * from deliveries
 where (:workflow_id is null or workflow_id = :workflow_id)
   and (:job_id is null or job_id = :job_id)
   and (:outcome is null or outcome = :outcome)
   and (:before_at is null or (sent_at, delivery_id) < (:before_at, :before_id))
 order by sent_at desc, delivery_id desc limit :limit;

-- name: ended_runs
-- The last run that counts stays, however old: the next one may ask how it ended.
select run_id from runs as old
 where completed_at < ?
   and (succeeded is null or exists (select 1 from runs as newer
                                      where newer.workflow_id = old.workflow_id and newer.succeeded is not null
                                        and newer.completed_at > old.completed_at))
 order by completed_at limit ?;

-- name: delete_deliveries
delete from deliveries where job_id in (select value from json_each(?));
