-- Instants are microseconds since the epoch, UTC. JSON values are text that was encoded once.

create table workflows (
    workflow_id text not null,
    version     integer not null,
    digest      text not null,
    definition  text not null,
    created_at  integer not null,
    deleted_at  integer,
    primary key (workflow_id, version)
) strict;

create table aliases (
    workflow_id text not null,
    alias       text not null,
    targets     text not null,
    updated_at  integer not null,
    primary key (workflow_id, alias)
) strict, without rowid;

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
    request_digest  text,
    scheduled_at    integer,
    shard_key       text,
    is_ended        integer not null generated always as (status not in ('pending', 'running')) virtual
) strict, without rowid;

create index jobs_unfinished on jobs (shard, created_at, job_id) where not is_ended;
create index jobs_newest on jobs (created_at, job_id);
create index jobs_of_workflow on jobs (workflow_id, created_at, job_id);
create index jobs_ended on jobs (completed_at) where is_ended;
create unique index jobs_idempotency on jobs (workflow_id, idempotency_key) where idempotency_key is not null;

-- A node gets a row when it has more to store than its first dispatch (see events.in_flight). The key starts with the
-- job and the node's number in the plan: nodes that run at the same time have neighbouring numbers, so a commit writes
-- few pages, however large the job is.
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
    progress        text,
    primary key (job_id, number, node_id)
) strict, without rowid;

-- An iteration has a row once its state differs from "dispatched for the first time", which the loop's progress covers.
-- `generation` counts how often the loop was run again after it had completed.
create table iterations (
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

-- Outputs of the calls of a paginated node until they are merged. The index is -1 outside of loops.
create table call_outputs (
    job_id     text not null,
    number     integer not null,
    generation integer not null,
    "index"    integer not null,
    call       integer not null,
    output     text not null,
    primary key (job_id, number, generation, "index", call)
) strict, without rowid;

-- The collections of loops as they were evaluated, in chunks of elements; each chunk is a JSON array.
create table collection_chunks (
    job_id     text not null,
    number     integer not null,
    generation integer not null,
    chunk      integer not null,
    body       text not null,
    primary key (job_id, number, generation, chunk)
) strict, without rowid;

-- Pages of events: the events of one commit about one job, as a JSON array of arrays. The first event of a
-- job, job_created, is derived from the job's row (view job_created_pages).
--
-- `in_flight`: nodes that were dispatched for the first time and have no row yet, as a JSON array of
-- [number, node_id, first_seq, dispatched_at]. Only the newest page of a job counts.
create table events (
    job_id    text not null,
    first_seq integer not null,
    last_seq  integer not null,
    body      text not null,
    in_flight text
) strict;

-- The table has a rowid so that pages are appended, whatever job they belong to; only their small keys are sorted.
create unique index events_of_job on events (job_id, first_seq);

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

create index requests_unapplied on requests (shard, created_at) where not applied;
create index requests_of_job on requests (job_id);

-- Results reported over HTTP: stored before they are acknowledged, given a verdict by the commit that applies them.
create table results (
    result_id  text not null primary key,
    job_id     text not null,
    shard      integer not null,
    message    text not null,
    created_at integer not null,
    -- Null until the result is applied.
    verdict    text
) strict, without rowid;

create index results_unapplied on results (shard, created_at) where verdict is null;
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

-- Leases. A lease without `expires_at` is held until it is released or taken.
create table shards (
    shard      integer not null primary key,
    owner      text,
    epoch      integer not null,
    expires_at integer
) strict;

create table engines (
    owner      text not null primary key,
    expires_at integer not null
) strict, without rowid;

-- The definition says when a schedule is due; these columns hold its state. Slots up to `slot_at` were handled. A
-- removed schedule keeps its row, so that schedulers that look for changes see the removal.
create table schedules (
    workflow_id text not null primary key,
    version     integer not null,
    is_paused   integer not null,
    slot_at     integer not null,
    created_at  integer not null,
    changed_at  integer not null,
    is_gone     integer not null,
    seq         integer not null
) strict, without rowid;

create index schedules_changed on schedules (changed_at);

-- `succeeded` is null for runs that do not count as the previous run of the next one.
create table runs (
    run_id         text not null primary key,
    workflow_id    text not null,
    version        integer not null,
    shard          integer not null,
    state          text not null,
    previous_state text,
    scheduled_at   integer not null,
    created_at     integer not null,
    state_at       integer not null,
    completed_at   integer,
    job_id         text,
    attempt        integer not null,
    detail         text not null,
    succeeded      integer
) strict, without rowid;

create index runs_active on runs (shard, scheduled_at) where completed_at is null;
create index runs_newest on runs (scheduled_at, run_id);
create index runs_of_workflow on runs (workflow_id, scheduled_at, run_id);
create index runs_of_job on runs (job_id) where job_id is not null;
create index runs_counted on runs (workflow_id, completed_at) where succeeded is not null;
create index runs_ended on runs (completed_at) where completed_at is not null;

-- Pages of events of runs, like those of jobs; the events of a schedule have an empty run_id.
create table run_events (
    workflow_id text not null,
    run_id      text not null,
    first_seq   integer not null,
    last_seq    integer not null,
    body        text not null,
    primary key (run_id, workflow_id, first_seq)
) strict, without rowid;

-- Removed by the commit that applies them.
create table run_requests (
    request_id  text not null primary key,
    workflow_id text not null,
    shard       integer not null,
    kind        text not null,
    created_at  integer not null,
    run_id      text,
    reason      text,
    since       integer,
    until       integer
) strict, without rowid;

-- When an engine last reported that it serves the runs of a shard.
create table run_heartbeats (
    shard integer not null primary key,
    at    integer not null
) strict;

create table deliveries (
    delivery_id           text not null primary key,
    job_id                text not null,
    workflow_id           text not null,
    node_id               text not null,
    attempt               integer not null,
    url                   text not null,
    outcome               text not null,
    status                integer,
    error                 text,
    response              text,
    duration_microseconds integer not null,
    sent_at               integer not null,
    params                text not null
) strict, without rowid;

create index deliveries_newest on deliveries (sent_at, delivery_id);
create index deliveries_of_job on deliveries (job_id);
