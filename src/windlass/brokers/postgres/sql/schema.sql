-- name: schema
-- Unlogged tables need no write-ahead log and no waiting for a disk. PostgreSQL empties them after a crash, which a
-- broker
-- may do. The sequence is logged: a number is never assigned twice, so a late acknowledgement cannot delete another
-- message. Rows are short-lived: pages keep room for the update of every task, and dead rows are vacuumed soon.
create sequence if not exists broker_numbers;

-- Tables of an earlier form are replaced: the engines publish their tasks again.
do $$
begin
    if to_regclass('broker_tasks') is not null and not exists (
        select from pg_attribute where attrelid = to_regclass('broker_tasks') and attname = 'turn'
    ) then
        drop table broker_tasks, broker_workers;
    end if;
end $$;

create unlogged table if not exists broker_tasks (
    task_id text not null primary key,
    number bigint not null,
    shard integer not null,
    queue text not null,
    priority integer not null,
    handler text not null,
    -- Claims take the lowest turns: see broker_publish.
    turn bigint not null,
    body bytea not null,
    holder text,
    extended_at timestamptz,
    losses integer not null default 0,
    published_at timestamptz not null default clock_timestamp(),
    claimed_at timestamptz
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5
);
-- With the handler, tasks of handlers that a worker does not have are skipped in the index.
create index if not exists broker_tasks_waiting on broker_tasks (queue, priority desc, turn, number, handler)
    where holder is null;
create index if not exists broker_tasks_held on broker_tasks (holder) where holder is not null;

create unlogged table if not exists broker_inbox (
    shard integer not null,
    number bigint not null,
    message bytea not null,
    primary key (shard, number)
) with (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.5
);

create unlogged table if not exists broker_workers (
    worker_id text not null primary key,
    queues text[] not null,
    -- Null for a worker that claims tasks of every handler.
    handlers text[],
    seen_at timestamptz not null
) with (fillfactor = 50);

-- The last turn of each workflow in a queue and priority.
create unlogged table if not exists broker_turns (
    queue text not null,
    priority integer not null,
    workflow_id text not null,
    last bigint not null,
    added integer not null,
    primary key (queue, priority, workflow_id)
) with (fillfactor = 50);

-- The epochs of the owners of shards: what earlier owners publish is ignored.
create unlogged table if not exists broker_epochs (
    shard integer not null primary key,
    epoch bigint not null
);

-- One row, lost with the contents of the other tables.
create unlogged table if not exists broker_contents (
    id integer not null primary key check (id = 1),
    name text not null
);

create unlogged table if not exists broker_cancellations (
    worker_id text not null,
    number bigint not null,
    task_id text not null,
    primary key (worker_id, number)
);

-- Queues tasks of a shard in one round trip; returns the queues of those that are new.
-- Workflows with waiting tasks of one queue and priority take turns: the tasks of each have increasing turns, and
-- claims take the lowest ones. A workflow without waiting tasks starts at the turn that comes next. Turns start at the
-- time, so that a task which was held while its queue became empty is not behind newer ones.
create or replace function broker_publish(
    of_shard integer, under_epoch bigint, ids text[], queues text[], priorities integer[], handlers text[],
    workflow_ids text[], bodies bytea[]
) returns setof text language plpgsql as $$
declare
    newest bigint;
begin
    select epoch into newest from broker_epochs where broker_epochs.shard = of_shard;
    if newest is null or newest < under_epoch then
        perform broker_register_owner(of_shard, under_epoch);
    elsif newest > under_epoch then
        return;
    end if;
    return query
        with given as (
            select * from unnest(ids, queues, priorities, handlers, workflow_ids, bodies)
                with ordinality as new (task_id, queue, priority, handler, workflow_id, body, place)
        ), sizes as (
            select queue, priority, workflow_id, count(*) as size from given group by queue, priority, workflow_id
        ), firsts as (
            select queue, priority, coalesce(
                (select waiting.turn from broker_tasks as waiting
                  where waiting.queue = known.queue and waiting.priority = known.priority and holder is null
                  order by waiting.turn limit 1),
                (extract(epoch from clock_timestamp()) * 1000000)::bigint) as first
              from (select distinct queue, priority from sizes) as known
        ), turns as (
            -- In the order of the key, so that concurrent calls do not deadlock.
            insert into broker_turns as known (queue, priority, workflow_id, last, added)
            select queue, priority, workflow_id, first + size - 1, size from sizes join firsts using (queue, priority)
             order by queue, priority, workflow_id
                on conflict (queue, priority, workflow_id) do update
               set last = greatest(known.last + excluded.added, excluded.last), added = excluded.added
            returning queue, priority, workflow_id, last - added as before
        ), inserted as (
            insert into broker_tasks (task_id, number, shard, queue, priority, handler, turn, body)
            select task_id, nextval('broker_numbers'), of_shard, queue, priority, handler,
                   before + row_number() over (partition by queue, priority, workflow_id order by place), body
              from given join turns using (queue, priority, workflow_id)
                on conflict (task_id) do nothing
            returning queue
        )
        select distinct queue from inserted;
end $$;

create or replace function broker_register_owner(of_shard integer, under_epoch bigint)
returns void language sql as $$
    insert into broker_epochs values (of_shard, under_epoch)
        on conflict (shard) do update set epoch = greatest(broker_epochs.epoch, excluded.epoch);
$$;

-- Claims tasks in one round trip: queues in the given order, in each the highest priority first, then the lowest turn.
-- Tasks that another worker is claiming are skipped. '*' means every queue with waiting tasks, found by one index step
-- per queue.
drop function if exists broker_claim(text, text[], integer);
create or replace function broker_claim(for_worker text, from_queues text[], of_handlers text[], at_most integer)
returns table (claimed_body bytea, delivery_count integer) language plpgsql as $$
declare
    queue_name text;
    claimed_count integer := 0;
    row_total integer;
begin
    insert into broker_workers (worker_id, queues, handlers, seen_at)
    values (for_worker, from_queues, of_handlers, clock_timestamp())
        on conflict (worker_id) do update
       set queues = excluded.queues, handlers = excluded.handlers, seen_at = excluded.seen_at;
    if '*' = any (from_queues) then
        from_queues := array(
            with recursive names as (
                (select queue from broker_tasks where holder is null order by queue limit 1)
                union all
                select (select queue from broker_tasks where holder is null and queue > names.queue
                         order by queue limit 1)
                  from names where names.queue is not null
            )
            select queue from names where queue is not null
        );
    end if;
    foreach queue_name in array from_queues loop
        return query
            with wanted as (
                select task_id from broker_tasks
                 where queue = queue_name and holder is null
                   and (of_handlers is null or handler = any (of_handlers))
                 order by priority desc, turn, number limit at_most - claimed_count
                   for update skip locked
            ), claimed as (
                update broker_tasks
                   set holder = for_worker, extended_at = clock_timestamp(), claimed_at = clock_timestamp()
                  from wanted where broker_tasks.task_id = wanted.task_id
                returning body, losses, priority, turn, number
            )
            select body, losses + 1 from claimed order by priority desc, turn, number;
        get diagnostics row_total = row_count;
        claimed_count := claimed_count + row_total;
        exit when claimed_count >= at_most;
    end loop;
end $$;
