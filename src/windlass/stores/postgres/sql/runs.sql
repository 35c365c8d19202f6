-- name: run_of_slots
-- Instants do not fit into the integers of other lists.
select {run_columns} from runs
 where workflow_id = :workflow_id and scheduled_at = any (:slots::bigint[])
 order by scheduled_at, run_id;

-- name: run_last_successes
-- One index search per workflow.
select wanted.workflow_id, last.succeeded
  from unnest(:workflow_ids::text[]) as wanted (workflow_id),
       lateral (select succeeded from runs where runs.workflow_id = wanted.workflow_id and succeeded is not null
                 order by completed_at desc limit 1) as last;

-- name: run_heartbeat_put
insert into run_heartbeats (shard, at, total) values (:shard, clock_timestamp(), 1)
    on conflict (shard) do update set at = excluded.at, total = run_heartbeats.total + 1
returning total;

-- name: run_heartbeat_age
select extract(epoch from clock_timestamp() - at)::double precision from run_heartbeats where shard = :shard;

-- name: schedule_event_prune
-- A page is deleted when its last event is old enough; schedules have few events.
delete from run_events where run_id = '' and (body::json -> -1 ->> 4)::bigint < :finished_before;

-- name: run_prune
-- The last run that counts is kept, however old: the next run may depend on how it ended.
with pruned as (
    select run_id from runs as old
     where completed_at < :finished_before
       and (succeeded is null or exists (select from runs as newer
                                          where newer.workflow_id = old.workflow_id and newer.succeeded is not null
                                            and newer.completed_at > old.completed_at))
     order by completed_at limit :limit
), pruned_events as (
    delete from run_events using pruned where run_events.run_id = pruned.run_id
)
delete from runs using pruned where runs.run_id = pruned.run_id;
