-- name: schema
-- Unlogged tables need no write-ahead log and no waiting for a disk. PostgreSQL empties them after a crash, which a
-- broker
-- may do. The sequence is logged: a number is never assigned twice, so a late acknowledgement cannot delete another
-- message. Rows are short-lived: pages keep room for the update of every task, and dead rows are vacuumed soon.
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
    claimed_at timestamptz
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5
);
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

create unlogged table if not exists broker_cancellations (
    worker_id text not null,
    number bigint not null,
    task_id text not null,
    primary key (worker_id, number)
);

-- Claims tasks in one round trip: queues in the given order, in each the highest priority first, then the oldest task.
-- Tasks that another worker is claiming are skipped. '*' means every queue with waiting tasks, found by one index step
-- per queue.
create or replace function broker_claim(for_worker text, from_queues text[], at_most integer)
returns table (claimed_body bytea, delivery_count integer) language plpgsql as $$
declare
    queue_name text;
    claimed_count integer := 0;
    row_total integer;
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
    foreach queue_name in array from_queues loop
        return query
            with wanted as (
                select task_id from broker_tasks
                 where queue = queue_name and holder is null
                 order by priority desc, number limit at_most - claimed_count
                   for update skip locked
            ), claimed as (
                update broker_tasks
                   set holder = for_worker, extended_at = clock_timestamp(), claimed_at = clock_timestamp()
                  from wanted where broker_tasks.task_id = wanted.task_id
                returning body, losses, priority, number
            )
            select body, losses + 1 from claimed order by priority desc, number;
        get diagnostics row_total = row_count;
        claimed_count := claimed_count + row_total;
        exit when claimed_count >= at_most;
    end loop;
end $$;
