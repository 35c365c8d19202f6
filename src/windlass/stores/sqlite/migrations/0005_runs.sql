-- Schedules, the runs of workflows that have schedules or constraints, and deliveries of webhooks.

-- The definition says when a schedule is due; here is what else must be known. `slot_at`: slots up to here were dealt
-- with. One that is gone keeps its row, so that those who look for changes see it go.
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

-- Events of runs are in `events`, under the run's id. `succeeded` is null for runs that do not count as the previous
-- one.
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

-- Removed when they are applied.
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

-- When somebody last said that the runs of a shard are served.
create table run_beats (
    shard integer not null primary key,
    at    integer not null
) strict;

create table deliveries (
    delivery_id      text not null primary key,
    job_id           text not null,
    workflow_id      text not null,
    node_id          text not null,
    attempt          integer not null,
    url              text not null,
    outcome          text not null,
    status           integer,
    error            text,
    response         text,
    duration_microseconds integer not null,
    sent_at          integer not null,
    params           text not null
) strict, without rowid;

create index deliveries_newest on deliveries (sent_at, delivery_id);
create index deliveries_of_job on deliveries (job_id);
