-- name: lock_schema
-- Processes that start at the same time create the tables one after the other.
select pg_advisory_xact_lock(hashtext('windlass broker'));

-- name: publish
-- A task id that is already queued or held is ignored.
select broker_publish($1, $2, $3, $4, $5, $6, $7, $8);

-- name: register_owner
select broker_register_owner($1, $2);

-- name: incarnation
-- A statement does not see what it inserts.
with added as (
    insert into broker_contents values (1, $1) on conflict (id) do nothing returning name
)
select name from added union all select name from broker_contents limit 1;

-- name: claim
select claimed_body, delivery_count from broker_claim($1, $2, $3, $4);

-- name: extend
-- Also records the worker's last call; its queues are known from its claims.
with held as (
    update broker_tasks set extended_at = clock_timestamp()
     where task_id = any ($2::text[]) and holder = $1
    returning task_id
), seen as (
    insert into broker_workers (worker_id, queues, seen_at) values ($1, '{}', clock_timestamp())
        on conflict (worker_id) do update set seen_at = excluded.seen_at
)
select task_id from unnest($2::text[]) as given (task_id) where task_id not in (select task_id from held);

-- name: finish
-- Sends the results and deletes the tasks in one step. Another worker that holds such a task now is asked to stop.
with deleted as (
    delete from broker_tasks where task_id = any ($2::text[]) returning task_id, holder
), cancelled as (
    insert into broker_cancellations (worker_id, number, task_id)
    select holder, nextval('broker_numbers'), task_id from deleted where holder <> $1
    returning worker_id
), sent as (
    insert into broker_inbox (shard, number, message)
    select shard, nextval('broker_numbers'), message
      from unnest($3::integer[], $4::bytea[]) as new (shard, message)
), seen as (
    insert into broker_workers (worker_id, queues, seen_at) values ($1, '{}', clock_timestamp())
        on conflict (worker_id) do update set seen_at = excluded.seen_at
)
select distinct worker_id from cancelled;

-- name: return_tasks
-- The task keeps its number and with it its position in the queue.
update broker_tasks set holder = null, extended_at = null
 where task_id = any ($2::text[]) and holder = $1
returning queue;

-- name: reclaim
-- Several engines run this at once; each task is found by one of them.
with lost as (
    select task_id, holder from broker_tasks
     where holder is not null and extended_at < clock_timestamp() - make_interval(secs => $1)
     limit $2 for update skip locked
)
update broker_tasks set holder = null, extended_at = null, losses = losses + 1
  from lost where broker_tasks.task_id = lost.task_id
returning broker_tasks.task_id, queue, body, losses, lost.holder as worker_id;

-- name: forget_workers
-- Also forgets turns that are long past: a workflow without a turn starts at the next one.
with past as (
    delete from broker_turns where last < (extract(epoch from clock_timestamp() - interval '1 hour') * 1000000)::bigint
), silent as (
    delete from broker_workers
     where seen_at < clock_timestamp() - make_interval(secs => $1)
       and not exists (select from broker_tasks where holder = broker_workers.worker_id)
    returning worker_id
)
delete from broker_cancellations where worker_id in (select worker_id from silent);

-- name: deregister
with stopped as (
    delete from broker_workers
     where worker_id = $1 and not exists (select from broker_tasks where holder = $1)
    returning worker_id
)
delete from broker_cancellations where worker_id in (select worker_id from stopped);

-- name: cancel
with deleted as (
    delete from broker_tasks where task_id = any ($1::text[]) returning task_id, holder
)
insert into broker_cancellations (worker_id, number, task_id)
select holder, nextval('broker_numbers'), task_id from deleted where holder is not null
returning worker_id;

-- name: pop_cancellations
delete from broker_cancellations
 where (worker_id, number) in (
       select worker_id, number from broker_cancellations where worker_id = $1 order by number limit $2)
returning task_id;

-- name: delete_tasks
delete from broker_tasks where task_id = any ($1::text[]);

-- name: workers
select worker_id, queues, handlers, (extract(epoch from seen_at) * 1000000)::bigint as seen_at,
       extract(epoch from clock_timestamp() - seen_at)::double precision as silent_seconds,
       (select count(*) from broker_tasks where holder = broker_workers.worker_id) as held
  from broker_workers order by worker_id limit $1;

-- name: held
select holder, task_id, (extract(epoch from coalesce(claimed_at, extended_at)) * 1000000)::bigint from (
    select holder, task_id, claimed_at, extended_at,
           row_number() over (partition by holder order by claimed_at) as place
      from broker_tasks where holder is not null
) as held where place <= $2 limit $1;

-- name: tasks_of
select task_id from broker_tasks where shard = $1;

-- name: queues
-- Queue names by one index step each, and a bounded index scan per queue: the time does not depend on the depth.
with recursive waiting as (
    (select queue from broker_tasks where holder is null order by queue limit 1)
    union all
    select (select queue from broker_tasks where holder is null and queue > waiting.queue order by queue limit 1)
      from waiting where waiting.queue is not null
), running as (
    select queue, count(*) as count from broker_tasks where holder is not null group by queue
)
select queue, coalesce(queued.count, 0), coalesce(running.count, 0),
       extract(epoch from clock_timestamp() - queued.oldest_at)::double precision, handlers, depths
  from (select queue from waiting where queue is not null union select queue from running) as known
  left join running using (queue)
 cross join lateral (
    select sum(depth)::bigint as count, min(oldest_at) as oldest_at, array_agg(handler order by handler) as handlers,
           array_agg(depth order by handler) as depths
      from (
        select handler, count(*) as depth, min(published_at) as oldest_at from (
            select handler, published_at from broker_tasks where queue = known.queue and holder is null
             order by priority desc, turn, number limit $1
        ) as counted group by handler
    ) as by_handler
) as queued order by queue;

-- name: missing
select task_id from unnest($1::text[]) as given (task_id)
 where not exists (select from broker_tasks where broker_tasks.task_id = given.task_id);

-- name: send
insert into broker_inbox (shard, number, message)
select $1, nextval('broker_numbers'), message from unnest($2::bytea[]) as new (message);

-- name: receive
-- Numbers are assigned before commits, so a message may appear below those already read. Received messages are
-- therefore
-- excluded by number; only old ones are excluded by range.
select number, message from broker_inbox
 where shard = $1 and number > $2 and number <> all ($3::bigint[])
 order by number limit $4;

-- name: acknowledge
delete from broker_inbox where shard = $1 and number = any ($2::bigint[]);

-- name: notify
select pg_notify($1, payload) from unnest($2::text[]) as sent (payload);
