-- The time without a heartbeat after which an engine counts workers as lost: workers must know it. Engines write their
-- rows again when they start.
delete from engines;
alter table engines add column worker_timeout_seconds double precision not null default 15;

-- What all processes on a database must agree on: one row. Every shard of a database in use has had an owner.
create table deployment (
    id          integer not null primary key check (id = 1),
    shard_count integer not null
);
insert into deployment (id, shard_count) select 1, max(shard) + 1 from shards having max(shard) is not null;
