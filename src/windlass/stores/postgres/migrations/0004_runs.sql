-- Schedules, the runs of workflows that have schedules or constraints, and deliveries of webhooks.

-- The definition says when a schedule is due; here is what else must be known. `slot_at`: slots up to here were dealt
-- with. One that is gone keeps its row, so that those who look for changes see it go.
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

-- Events of runs are in `events`, under the run's id. `succeeded` is null for runs that do not count as the previous
-- one.
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

-- Removed when they are applied.
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

-- When somebody last said that the runs of a shard are served.
create table run_beats (
    shard integer not null primary key,
    at    timestamptz not null
) with (fillfactor = 10);

create table deliveries (
    delivery_id      text collate "C" not null primary key,
    job_id           text collate "C" not null,
    workflow_id      text collate "C" not null,
    node_id          text collate "C" not null,
    attempt          integer not null,
    url              text not null,
    outcome          text not null,
    status           integer,
    error            text,
    response         text,
    duration_microseconds bigint not null,
    sent_at          bigint not null,
    params           text not null
);

create index deliveries_newest on deliveries (sent_at, delivery_id);
create index deliveries_of_job on deliveries (job_id);

-- What a commit says about runs, as one JSON document; called in the same statement as windlass_commit and before it,
-- and only when there is something to say: most commits are about jobs only. It looks at the epochs under the same
-- locks, so that both write or neither does. A run under an id that is taken fails the whole commit.
create function windlass_put_runs(of_shards text, as_epochs text, document text) returns boolean language plpgsql as $$
declare
    given json := document::json;
begin
    perform pg_advisory_xact_lock_shared(22348, one.shard) from unnest(of_shards::integer[]) as one (shard);
    if exists (select from unnest(of_shards::integer[], as_epochs::bigint[]) as one (shard, epoch)
                 left join shards on shards.shard = one.shard where shards.epoch is distinct from one.epoch) then
        return true;
    end if;
    insert into runs
    select * from json_to_recordset(given -> 'fresh')
        as (run_id text, workflow_id text, version integer, shard integer, state text, previous_state text,
            scheduled_at bigint, created_at bigint, state_at bigint, completed_at bigint, job_id text,
            attempt integer, detail text, succeeded boolean);
    update runs
       set version = new.version, state = new.state, previous_state = new.previous_state, state_at = new.state_at,
           completed_at = new.completed_at, job_id = new.job_id, attempt = new.attempt, detail = new.detail,
           succeeded = new.succeeded
      from json_to_recordset(given -> 'known')
        as new (run_id text, version integer, state text, previous_state text, state_at bigint, completed_at bigint,
                job_id text, attempt integer, detail text, succeeded boolean)
     where runs.run_id = new.run_id;
    delete from runs using json_array_elements_text(given -> 'withdrawn') as gone where runs.run_id = gone;
    update schedules
       set slot_at = greatest(schedules.slot_at, mark.slot_at), seq = greatest(schedules.seq, mark.seq)
      from json_to_recordset(given -> 'marks') as mark (workflow_id text, slot_at bigint, seq bigint)
     where schedules.workflow_id = mark.workflow_id;
    insert into jobs (job_id, workflow_id, version, input, created_at, shard, priority, scheduled_at, status, round)
    select job_id, workflow_id, version, input, created_at, shard, priority, scheduled_at, 'pending', 0
      from json_to_recordset(given -> 'jobs')
        as (job_id text, workflow_id text, version integer, input text, created_at bigint, shard integer,
            priority integer, scheduled_at bigint);
    insert into events
    select job_id, 1, 1, page from json_to_recordset(given -> 'jobs') as (job_id text, page text);
    delete from run_requests using json_array_elements_text(given -> 'requests') as done
     where run_requests.request_id = done;
    insert into deliveries
    select * from json_to_recordset(given -> 'deliveries')
        as (delivery_id text, job_id text, workflow_id text, node_id text, attempt integer, url text, outcome text,
            status integer, error text, response text, duration_microseconds bigint, sent_at bigint, params text)
        on conflict (delivery_id) do nothing;
    return true;
end
$$;
