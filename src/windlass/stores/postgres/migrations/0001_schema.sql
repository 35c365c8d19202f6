-- Instants are microseconds since the epoch, UTC, except those that the database's own clock sets. JSON values are text
-- that was encoded once and is returned byte for byte, which jsonb does not guarantee. Ids compare as bytes.
--
-- Rows that are updated often have no index on the columns that change and a fillfactor that leaves room in their page,
-- so that updates stay in the page (HOT) and need no vacuum of indexes. Autovacuum runs early, so each run is short.

create table workflows (
    workflow_id text collate "C" not null,
    version     integer not null,
    digest      text not null,
    definition  text not null,
    created_at  bigint not null,
    deleted_at  bigint,
    primary key (workflow_id, version)
);

create table aliases (
    workflow_id text collate "C" not null,
    alias       text collate "C" not null,
    targets     text not null,
    updated_at  bigint not null,
    primary key (workflow_id, alias)
);

create table jobs (
    job_id          text collate "C" not null primary key,
    workflow_id     text collate "C" not null,
    version         integer not null,
    shard           integer not null,
    status          text not null,
    input           text not null,
    round           integer not null,
    priority        integer not null,
    created_at      bigint not null,
    started_at      bigint,
    completed_at    bigint,
    deadline_at     bigint,
    error           text,
    idempotency_key text collate "C",
    request_digest  text,
    scheduled_at    bigint,
    shard_key       text collate "C",
    -- Indexes depend on this column instead of the status: it changes once per job, the status twice.
    is_ended        boolean not null generated always as (status not in ('pending', 'running')) stored
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create index jobs_unfinished on jobs (shard, created_at, job_id) where not is_ended;
create index jobs_newest on jobs (created_at, job_id);
create index jobs_of_workflow on jobs (workflow_id, created_at, job_id);
create index jobs_ended on jobs (completed_at) where is_ended;
create unique index jobs_idempotency on jobs (workflow_id, idempotency_key) where idempotency_key is not null;

-- A node gets a row when it has more to store than its first dispatch (see events.in_flight).
create table nodes (
    job_id          text collate "C" not null,
    node_id         text collate "C" not null,
    status          text not null,
    attempt         integer not null,
    attempts_before integer not null,
    losses          integer not null,
    first_seq       bigint,
    dispatched_at   bigint,
    started_at      bigint,
    completed_at    bigint,
    due_at          bigint,
    worker_id       text,
    output          text,
    error           text,
    meta            text,
    number          integer not null,
    progress        text,
    primary key (job_id, number, node_id)
) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05,
        toast.autovacuum_vacuum_scale_factor = 0.02);

-- An iteration has a row once its state differs from "dispatched for the first time", which the loop's progress covers.
-- `generation` counts how often the loop was run again after it had completed.
create table iterations (
    job_id          text collate "C" not null,
    number          integer not null,
    generation      integer not null,
    "index"         integer not null,
    status          text not null,
    attempt         integer not null,
    attempts_before integer not null,
    losses          integer not null,
    first_seq       bigint,
    dispatched_at   bigint,
    started_at      bigint,
    completed_at    bigint,
    due_at          bigint,
    worker_id       text,
    output          text,
    error           text,
    meta            text,
    progress        text,
    primary key (job_id, number, generation, "index")
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05,
        toast.autovacuum_vacuum_scale_factor = 0.02);

-- Outputs of the calls of a paginated node until they are merged. The index is -1 outside of loops.
create table call_outputs (
    job_id     text collate "C" not null,
    number     integer not null,
    generation integer not null,
    "index"    integer not null,
    call       integer not null,
    output     text not null,
    primary key (job_id, number, generation, "index", call)
);

-- The collections of loops as they were evaluated, in chunks of elements; each chunk is a JSON array.
create table collection_chunks (
    job_id     text collate "C" not null,
    number     integer not null,
    generation integer not null,
    chunk      integer not null,
    body       text not null,
    primary key (job_id, number, generation, chunk)
);

-- Pages of events: the events of one commit about one job, as a JSON array of arrays. The first event of a
-- job, job_created, is derived from the job's row (view job_created_pages). Pages are only appended, and removed with
-- their job.
--
-- `in_flight`: nodes that were dispatched for the first time and have no row yet, as a JSON array of
-- [number, node_id, first_seq, dispatched_at]. Only the newest page of a job counts.
create table events (
    job_id    text collate "C" not null,
    first_seq bigint not null,
    last_seq  bigint not null,
    body      text not null,
    in_flight text,
    primary key (job_id, first_seq)
) with (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);

create table requests (
    request_id text collate "C" not null primary key,
    job_id     text collate "C" not null,
    shard      integer not null,
    kind       text not null,
    created_at bigint not null,
    reason     text,
    from_node  text,
    applied    boolean not null default false
);

create index requests_unapplied on requests (shard, created_at, request_id) where not applied;
create index requests_of_job on requests (job_id);

-- Results reported over HTTP: stored before they are acknowledged, given a verdict by the commit that applies them.
create table results (
    result_id  text collate "C" not null primary key,
    job_id     text collate "C" not null,
    shard      integer not null,
    message    text not null,
    created_at bigint not null,
    -- Null until the result is applied.
    verdict    text
) with (autovacuum_vacuum_scale_factor = 0.02);

create index results_unapplied on results (shard, created_at, result_id) where verdict is null;
create index results_of_job on results (job_id);

create table logs (
    log_id  bigint generated always as identity primary key,
    job_id  text collate "C" not null,
    node_id text collate "C" not null,
    "index" integer not null,
    attempt integer not null,
    at      bigint not null,
    level   text not null,
    message text not null
);

create index logs_of_job on logs (job_id, log_id);

-- Leases, renewed about every second by each engine: few rows, each on a page of its own. A lease without `expires_at`
-- is held until it is released or taken.
create table shards (
    shard      integer not null primary key,
    owner      text,
    epoch      bigint not null,
    expires_at timestamptz
) with (fillfactor = 10, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);

create table engines (
    owner      text collate "C" not null primary key,
    expires_at timestamptz not null
) with (fillfactor = 10, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);

-- The definition says when a schedule is due; these columns hold its state. Slots up to `slot_at` were handled. A
-- removed schedule keeps its row, so that schedulers that look for changes see the removal.
create table schedules (
    workflow_id text collate "C" not null primary key,
    version     integer not null,
    is_paused   boolean not null,
    slot_at     bigint not null,
    created_at  bigint not null,
    changed_at  bigint not null,
    is_gone     boolean not null,
    seq         bigint not null
) with (fillfactor = 50);

create index schedules_changed on schedules (changed_at);

-- `succeeded` is null for runs that do not count as the previous run of the next one.
create table runs (
    run_id         text collate "C" not null primary key,
    workflow_id    text collate "C" not null,
    version        integer not null,
    shard          integer not null,
    state          text not null,
    previous_state text,
    scheduled_at   bigint not null,
    created_at     bigint not null,
    state_at       bigint not null,
    completed_at   bigint,
    job_id         text collate "C",
    attempt        integer not null,
    detail         text not null,
    succeeded      boolean
) with (fillfactor = 50);

create index runs_active on runs (shard, scheduled_at) where completed_at is null;
create index runs_newest on runs (scheduled_at, run_id);
create index runs_of_workflow on runs (workflow_id, scheduled_at, run_id);
create index runs_of_job on runs (job_id) where job_id is not null;
create index runs_counted on runs (workflow_id, completed_at) where succeeded is not null;
create index runs_ended on runs (completed_at) where completed_at is not null;

-- Pages of events of runs, like those of jobs; the events of a schedule have an empty run_id.
create table run_events (
    workflow_id text collate "C" not null,
    run_id      text collate "C" not null,
    first_seq   bigint not null,
    last_seq    bigint not null,
    body        text not null,
    primary key (run_id, workflow_id, first_seq)
);

-- Removed by the commit that applies them.
create table run_requests (
    request_id  text collate "C" not null primary key,
    workflow_id text collate "C" not null,
    shard       integer not null,
    kind        text not null,
    created_at  bigint not null,
    run_id      text collate "C",
    reason      text,
    since       bigint,
    until       bigint
);

-- When an engine last reported that it serves the runs of a shard.
create table run_heartbeats (
    shard integer not null primary key,
    at    timestamptz not null
) with (fillfactor = 10);

create table deliveries (
    delivery_id           text collate "C" not null primary key,
    job_id                text collate "C" not null,
    workflow_id           text collate "C" not null,
    node_id               text collate "C" not null,
    attempt               integer not null,
    url                   text not null,
    outcome               text not null,
    status                integer,
    error                 text,
    response              text,
    duration_microseconds bigint not null,
    sent_at               bigint not null,
    params                text not null
);

create index deliveries_newest on deliveries (sent_at, delivery_id);
create index deliveries_of_job on deliveries (job_id);

-- Outputs too large for rows and messages, where the database is the artifact store.
create table artifacts (
    job_id text collate "C" not null,
    digest text collate "C" not null,
    body   bytea not null,
    primary key (job_id, digest)
);

-- Not compressed, because most artifacts are read once.
alter table artifacts alter column body set storage external;
