-- name: run_last_successes
-- One index search per workflow.
select wanted.value,
       (select succeeded from runs where workflow_id = wanted.value and succeeded is not null
         order by completed_at desc limit 1) as succeeded
  from json_each(:workflow_ids) as wanted;

-- name: run_heartbeat_put
insert or replace into run_heartbeats (shard, at) values (:shard, :now);

-- name: run_heartbeat_get
select at from run_heartbeats where shard = :shard;

-- name: run_ended
-- The last run that counts is kept, however old: the next run may depend on how it ended.
select run_id from runs as old
 where completed_at < :finished_before
   and (succeeded is null or exists (select 1 from runs as newer
                                      where newer.workflow_id = old.workflow_id and newer.succeeded is not null
                                        and newer.completed_at > old.completed_at))
 order by completed_at limit :limit;
