-- name: schema
-- Unlogged: a broker may lose everything, and PostgreSQL empties these tables after a crash of the server. Nothing of a
-- queue is then written to the log or waited for. The numbers are logged: one that was given out never comes again, so
-- an owner that acknowledges late can not hit another message.
-- Rows live for moments. Pages keep room for the update that every task gets, and dead rows are removed soon.
create sequence if not exists broker_numbers;

create unlogged table if not exists broker_tasks (
    task_id text not null primary key,
    number bigint not null,
    queue text not null,
    priority integer not null,
    body bytea not null,
    holder text,
    extended_at timestamptz,
    losses integer not null default 0,
    published_at timestamptz not null default clock_timestamp(),
    taken_at timestamptz
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5
);
-- Tables of earlier versions have no such columns. To look first spares a lock that all others would wait for.
do $$
begin
    if not exists (select from pg_attribute where attrelid = 'broker_tasks'::regclass and attname = 'taken_at') then
        alter table broker_tasks
            add column published_at timestamptz not null default clock_timestamp(), add column taken_at timestamptz;
    end if;
end $$;
create index if not exists broker_tasks_waiting on broker_tasks (queue, priority desc, number) where holder is null;
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
    seen_at timestamptz not null
) with (fillfactor = 50);

create unlogged table if not exists broker_stops (
    worker_id text not null,
    number bigint not null,
    task_id text not null,
    primary key (worker_id, number)
);

-- One round trip, however many queues: the queues in the order they are named, in each the highest priority first, then
-- the oldest. What another worker is just taking is passed over. '*' stands for every queue with something waiting,
-- found by one step of the index for each of them.
create or replace function broker_take(for_worker text, from_queues text[], at_most integer)
returns table (taken_body bytea, delivery integer) language plpgsql as $$
declare
    one_queue text;
    taken integer := 0;
    found integer;
begin
    insert into broker_workers values (for_worker, from_queues, clock_timestamp())
        on conflict (worker_id) do update set queues = excluded.queues, seen_at = excluded.seen_at;
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
    foreach one_queue in array from_queues loop
        return query
            with wanted as (
                select task_id from broker_tasks
                 where queue = one_queue and holder is null
                 order by priority desc, number limit at_most - taken
                   for update skip locked
            ), given as (
                update broker_tasks
                   set holder = for_worker, extended_at = clock_timestamp(), taken_at = clock_timestamp()
                  from wanted where broker_tasks.task_id = wanted.task_id
                returning body, losses, priority, number
            )
            select body, losses + 1 from given order by priority desc, number;
        get diagnostics found = row_count;
        taken := taken + found;
        exit when taken >= at_most;
    end loop;
end $$;
