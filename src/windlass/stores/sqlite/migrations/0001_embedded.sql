-- Instants are microseconds since the epoch, UTC. JSON is text that was encoded once.

create table workflows (
    workflow_id text not null,
    version     integer not null,
    digest      text not null,
    definition  text not null,
    created_at  integer not null,
    primary key (workflow_id, version)
) strict;

create table jobs (
    job_id          text not null primary key,
    workflow_id     text not null,
    version         integer not null,
    shard           integer not null,
    status          text not null,
    input           text not null,
    round           integer not null,
    priority        integer not null,
    created_at      integer not null,
    started_at      integer,
    completed_at    integer,
    deadline_at     integer,
    error           text,
    idempotency_key text,
    body_digest     text
) strict, without rowid;

create index jobs_unfinished on jobs (shard, created_at) where status in ('pending', 'running');
create index jobs_newest on jobs (created_at, job_id);
create index jobs_ended on jobs (completed_at) where completed_at is not null;
create unique index jobs_idempotency on jobs (workflow_id, idempotency_key) where idempotency_key is not null;

-- A node has a row once it left pending. Rows of a job lie side by side, in the order of the plan's numbers: what runs
-- at one time is then written to few pages, however large the job.
create table nodes (
    job_id          text not null,
    node_id         text not null,
    status          text not null,
    attempt         integer not null,
    attempts_before integer not null,
    losses          integer not null,
    first_seq       integer,
    dispatched_at   integer,
    started_at      integer,
    completed_at    integer,
    due_at          integer,
    worker_id       text,
    output          text,
    error           text,
    meta            text,
    number          integer not null,
    primary key (job_id, number, node_id)
) strict, without rowid;

-- Events are stored in pages: what one commit said about one job, as a JSON array of arrays.
create table events (
    job_id    text not null,
    first_seq integer not null,
    last_seq  integer not null,
    body      text not null
) strict;

-- Pages are appended to the table whatever job they belong to; only their small keys are put in order.
create unique index events_of_job on events (job_id, first_seq);

-- The events one by one, for people who look into the database.
create view event_list as
select events.job_id,
       event.value ->> 0                                 as seq,
       event.value ->> 1                                 as event_type,
       event.value ->> 2                                 as node_id,
       event.value ->> 3                                 as "index",
       datetime((event.value ->> 4) / 1000000.0, 'unixepoch', 'subsec') as at,
       event.value -> 5                                  as data,
       event.value -> 6                                  as meta
  from events, json_each(events.body) as event;

create table requests (
    request_id text not null primary key,
    job_id     text not null,
    shard      integer not null,
    kind       text not null,
    created_at integer not null,
    reason     text,
    from_node  text,
    applied    integer not null default 0
) strict, without rowid;

create index requests_waiting on requests (shard, created_at) where applied = 0;
create index requests_of_job on requests (job_id);

create table shards (
    shard integer not null primary key,
    owner text,
    epoch integer not null
) strict;
