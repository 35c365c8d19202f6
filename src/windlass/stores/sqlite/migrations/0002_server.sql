-- What a server adds: aliases, deleted workflows, results reported over HTTP, logs, jobs that begin later.

alter table workflows add column deleted_at integer;

create table aliases (
    workflow_id text not null,
    alias       text not null,
    targets     text not null,
    updated_at  integer not null,
    primary key (workflow_id, alias)
) strict, without rowid;

alter table jobs add column scheduled_at integer;

-- A result is a row before its sender is told so, and applied in the same commit as what follows from it.
create table results (
    task_id    text not null primary key,
    job_id     text not null,
    shard      integer not null,
    message    text not null,
    created_at integer not null,
    applied    integer not null default 0
) strict, without rowid;

create index results_waiting on results (shard, created_at) where applied = 0;
create index results_of_job on results (job_id);

create table logs (
    log_id  integer not null primary key autoincrement,
    job_id  text not null,
    node_id text not null,
    "index" integer not null,
    attempt integer not null,
    at      integer not null,
    level   text not null,
    message text not null
) strict;

create index logs_of_job on logs (job_id, log_id);
