-- name: run_of_slots
-- Instants do not fit into the integers of other lists.
select {run_columns} from runs
 where workflow_id = :workflow_id and scheduled_at in (select value from json_each(:slots))
 order by scheduled_at, run_id;

-- name: run_last_successes
-- One index search per workflow.
select wanted.value,
       (select succeeded from runs where workflow_id = wanted.value and succeeded is not null
         order by completed_at desc limit 1) as succeeded
  from json_each(:workflow_ids) as wanted;

-- name: run_heartbeat_put
insert into run_heartbeats (shard, at, total) values (:shard, :now, 1)
    on conflict (shard) do update set at = excluded.at, total = total + 1
returning total;

-- name: run_heartbeat_get
select at from run_heartbeats where shard = :shard;

-- name: schedule_event_prune
-- A page is deleted when its last event is old enough; schedules have few events.
delete from run_events where run_id = '' and json_extract(body, '$[#-1][4]') < :finished_before;

-- name: run_ended
-- The last run that counts is kept, however old: the next run may depend on how it ended.
select run_id from runs as old
 where completed_at < :finished_before
   and (succeeded is null or exists (select 1 from runs as newer
                                      where newer.workflow_id = old.workflow_id and newer.succeeded is not null
                                        and newer.completed_at > old.completed_at))
 order by completed_at limit :limit;
