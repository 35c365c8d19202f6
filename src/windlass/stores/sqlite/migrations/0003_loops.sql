-- What loops and series of calls remember besides the row of their node.

alter table nodes add column progress text;

-- An iteration has a row once something happened to it that its loop does not tell: it ended, waits, runs for long.
-- `generation` counts how often the node was run anew after it had completed.
create table tasks (
    job_id          text not null,
    number          integer not null,
    generation      integer not null,
    "index"         integer not null,
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
    progress        text,
    primary key (job_id, number, generation, "index")
) strict, without rowid;

-- What each call of a series brought, until the series is over. The index is -1 outside of loops.
create table pages (
    job_id     text not null,
    number     integer not null,
    generation integer not null,
    "index"    integer not null,
    call       integer not null,
    output     text not null,
    primary key (job_id, number, generation, "index", call)
) strict, without rowid;

-- The collections that loops run over, as they were evaluated: blocks of elements, each a JSON array.
create table collections (
    job_id     text not null,
    number     integer not null,
    generation integer not null,
    block      integer not null,
    body       text not null,
    primary key (job_id, number, generation, block)
) strict, without rowid;
