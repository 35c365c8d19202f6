-- Schedules, runs and deliveries.

-- name: commit_with_runs
-- The first call must come first: the other may be about jobs that it makes. A value of its answer sees to that.
select stale_shard, newest_epoch
  from (select windlass_put_runs($1, $2, $63) as is_put) as runs,
       lateral windlass_commit(
    case when is_put then $1 end,
    $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48,
    $49, $50, $51, $52, $53, $54, $55, $56, $57, $58, $59, $60, $61, $62
);

-- name: put_schedule
-- A schedule that was gone begins anew: what fell into that time is not made up for.
insert into schedules (workflow_id, version, is_paused, slot_at, created_at, changed_at, is_gone, seq)
values ($1, $2, false, $3, $3, $3, false, 0)
on conflict (workflow_id) do update
   set version = excluded.version, changed_at = excluded.changed_at, is_gone = false,
       slot_at = case when schedules.is_gone then excluded.slot_at else schedules.slot_at end;

-- name: drop_schedule
update schedules set changed_at = $1, is_gone = true, version = coalesce($2, version) where workflow_id = $3;

-- name: pause_schedule
update schedules
   set changed_at = case when is_paused = $2 then changed_at else $3 end,
       slot_at = case when is_paused and not $2 then greatest(slot_at, $3) else slot_at end,
       is_paused = $2
 where workflow_id = $1 and not is_gone returning *;

-- name: schedules_by_id
select * from schedules where workflow_id > $1 and not is_gone order by workflow_id limit $2;

-- name: schedule
select * from schedules where workflow_id = $1 and not is_gone;

-- name: changed_schedules
select * from schedules where changed_at >= $1 and workflow_id > $2 order by workflow_id limit $3;

-- name: run
select * from runs where run_id = $1;

-- name: run_of_job
select * from runs where job_id = $1 order by created_at desc, run_id desc limit 1;

-- name: runs_newest
select * from runs
 where ($1::text is null or workflow_id = $1)
   and ($2::text is null or state = $2)
   and ($3::bigint is null or (scheduled_at, run_id) < ($3, $4))
 order by scheduled_at desc, run_id desc limit $5;

-- name: known_runs
select run_id from runs where run_id = any ($1::text[]);

-- name: active_runs
select * from runs where shard = $1 and completed_at is null order by scheduled_at, run_id;

-- name: last_successes
-- One search of an index for each workflow.
select name.value, last.succeeded
  from unnest($1::text[]) as name (value),
       lateral (select succeeded from runs where workflow_id = name.value and succeeded is not null
                 order by completed_at desc limit 1) as last;

-- name: count_runs
select workflow_id, state, count(*) from runs group by workflow_id, state;

-- name: insert_run_request
insert into run_requests (request_id, workflow_id, shard, kind, created_at, run_id, reason, since, until)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict (request_id) do nothing;

-- name: waiting_run_requests
select request_id, workflow_id, shard, kind, created_at, run_id, reason, since, until from run_requests
 where shard = any ($1::integer[]) order by created_at, request_id limit $2;

-- name: unapplied_run_requests
select request_id from run_requests where request_id = any ($1::text[]);

-- name: beat_runs
insert into run_heartbeats (shard, at) values ($1, clock_timestamp()) on conflict (shard) do update set at = excluded.at;

-- name: runs_beaten
select extract(epoch from clock_timestamp() - at)::double precision from run_heartbeats where shard = $1;

-- name: delivery
select * from deliveries where delivery_id = $1;

-- name: deliveries_newest
select * from deliveries
 where ($1::text is null or workflow_id = $1)
   and ($2::text is null or job_id = $2)
   and ($3::text is null or outcome = $3)
   and ($4::bigint is null or (sent_at, delivery_id) < ($4, $5))
 order by sent_at desc, delivery_id desc limit $6;

-- name: prune_runs
-- The last run that counts stays, however old: the next one may ask how it ended.
with gone as (
    select run_id from runs as old
     where completed_at < $1
       and (succeeded is null or exists (select from runs as newer
                                          where newer.workflow_id = old.workflow_id and newer.succeeded is not null
                                            and newer.completed_at > old.completed_at))
     order by completed_at limit $2
), gone_events as (
    delete from events using gone where events.job_id = gone.run_id
)
delete from runs using gone where runs.run_id = gone.run_id;

-- name: delete_deliveries
delete from deliveries where job_id = any ($1::text[]);
