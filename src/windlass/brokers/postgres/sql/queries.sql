-- name: lock_schema
-- Those who start together make the tables once.
select pg_advisory_xact_lock(hashtext('windlass broker'));

-- name: publish
-- Dispatch once: a task that is there already, queued or held, is left as it is.
insert into broker_tasks (task_id, number, queue, priority, body)
select task_id, nextval('broker_numbers'), queue, priority, body
  from unnest($1::text[], $2::text[], $3::integer[], $4::bytea[]) as new (task_id, queue, priority, body)
    on conflict (task_id) do nothing
returning queue;

-- name: claim
select taken_body, delivery from broker_take($1, $2, $3);

-- name: extend
-- The worker is seen in the same statement; what it serves is known from its claims.
with mine as (
    update broker_tasks set extended_at = clock_timestamp()
     where task_id = any ($2::text[]) and holder = $1
    returning task_id
), seen as (
    insert into broker_workers values ($1, '{}', clock_timestamp())
        on conflict (worker_id) do update set seen_at = excluded.seen_at
)
select task_id from unnest($2::text[]) as named (task_id) where task_id not in (select task_id from mine);

-- name: finish
-- The result goes to its shard and the task goes away in one step. Whoever else has the task now is asked to stop.
with gone as (
    delete from broker_tasks where task_id = any ($2::text[]) returning task_id, holder
), stopped as (
    insert into broker_stops (worker_id, number, task_id)
    select holder, nextval('broker_numbers'), task_id from gone where holder <> $1
    returning worker_id
), told as (
    insert into broker_inbox (shard, number, message)
    select shard, nextval('broker_numbers'), message
      from unnest($3::integer[], $4::bytea[]) as new (shard, message)
), seen as (
    insert into broker_workers values ($1, '{}', clock_timestamp())
        on conflict (worker_id) do update set seen_at = excluded.seen_at
)
select distinct worker_id from stopped;

-- name: return_tasks
-- The number stays, and with it the place in the queue.
update broker_tasks set holder = null, extended_at = null
 where task_id = any ($2::text[]) and holder = $1
returning queue;

-- name: reclaim
-- Several engines do this at once: each task is found by one of them.
with silent as (
    select task_id, holder from broker_tasks
     where holder is not null and extended_at < clock_timestamp() - make_interval(secs => $1)
     limit $2 for update skip locked
)
update broker_tasks set holder = null, extended_at = null, losses = losses + 1
  from silent where broker_tasks.task_id = silent.task_id
returning broker_tasks.task_id, queue, body, losses, silent.holder as worker_id;

-- name: forget_workers
with silent as (
    delete from broker_workers
     where seen_at < clock_timestamp() - make_interval(secs => $1)
       and not exists (select from broker_tasks where holder = broker_workers.worker_id)
    returning worker_id
)
delete from broker_stops where worker_id in (select worker_id from silent);

-- name: cancel
with gone as (
    delete from broker_tasks where task_id = any ($1::text[]) returning task_id, holder
)
insert into broker_stops (worker_id, number, task_id)
select holder, nextval('broker_numbers'), task_id from gone where holder is not null
returning worker_id;

-- name: stops
delete from broker_stops
 where (worker_id, number) in (select worker_id, number from broker_stops where worker_id = $1 order by number limit $2)
returning task_id;

-- name: drop_tasks
delete from broker_tasks where task_id = any ($1::text[]);

-- name: workers
select worker_id, queues, (extract(epoch from seen_at) * 1000000)::bigint,
       (select count(*) from broker_tasks where holder = broker_workers.worker_id)
  from broker_workers order by worker_id limit $1;

-- name: held
select holder, task_id, (extract(epoch from coalesce(taken_at, extended_at)) * 1000000)::bigint from (
    select holder, task_id, taken_at, extended_at, row_number() over (partition by holder order by taken_at) as place
      from broker_tasks where holder is not null
) as held where place <= $2 limit $1;

-- name: queues
-- The names by one step of the index each, and of each a bounded walk along its part: a long queue takes no longer.
with recursive waiting as (
    (select queue from broker_tasks where holder is null order by queue limit 1)
    union all
    select (select queue from broker_tasks where holder is null and queue > waiting.queue order by queue limit 1)
      from waiting where waiting.queue is not null
), running as (
    select queue, count(*) as count from broker_tasks where holder is not null group by queue
)
select queue, coalesce(line.count, 0), coalesce(running.count, 0),
       extract(epoch from clock_timestamp() - line.oldest_at)::double precision
  from (select queue from waiting where queue is not null union select queue from running) as known
  left join running using (queue)
 cross join lateral (
    select count(*), min(published_at) as oldest_at from (
        select published_at from broker_tasks where queue = known.queue and holder is null
         order by priority desc, number limit $1
    ) as some_of_it
) as line order by queue;

-- name: missing
select task_id from unnest($1::text[]) as named (task_id)
 where not exists (select from broker_tasks where broker_tasks.task_id = named.task_id);

-- name: send
insert into broker_inbox (shard, number, message)
select $1, nextval('broker_numbers'), message from unnest($2::bytea[]) as new (message);

-- name: receive
-- Reading takes nothing away. Numbers are given before commits, so one that was late may be below those already read:
-- what was gathered is therefore left out by name, and only what is old is left out by number.
select number, message from broker_inbox
 where shard = $1 and number > $2 and number <> all ($3::bigint[])
 order by number limit $4;

-- name: acknowledge
delete from broker_inbox where shard = $1 and number = any ($2::bigint[]);

-- name: notify
select pg_notify($1, payload) from unnest($2::text[]) as told (payload);
