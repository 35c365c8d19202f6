-- The whole schema as of SQLite's fourth step; from the next one on both dialects count alike.
--
-- Instants are microseconds since the epoch, UTC, except those that only the database's own clock decides. JSON is text
-- that was encoded once and comes back byte for byte, which jsonb does not promise. Ids compare as bytes.
--
-- Hot rows: what is updated often has no index on what changes, so that an update stays in its page (fillfactor leaves
-- the room) and old versions go without a vacuum; vacuums come early, and so are short.

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
    body_digest     text,
    scheduled_at    bigint,
    -- What indexes may depend on: it changes once, where the status changes twice.
    is_ended        boolean not null generated always as (status not in ('pending', 'running')) stored
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create index jobs_unfinished on jobs (shard, created_at, job_id) where not is_ended;
create index jobs_newest on jobs (created_at, job_id);
create index jobs_of_workflow on jobs (workflow_id, created_at, job_id);
create index jobs_ended on jobs (completed_at) where is_ended;
create unique index jobs_idempotency on jobs (workflow_id, idempotency_key) where idempotency_key is not null;

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

create table tasks (
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

create table pages (
    job_id     text collate "C" not null,
    number     integer not null,
    generation integer not null,
    "index"    integer not null,
    call       integer not null,
    output     text not null,
    primary key (job_id, number, generation, "index", call)
);

create table collections (
    job_id     text collate "C" not null,
    number     integer not null,
    generation integer not null,
    block      integer not null,
    body       text not null,
    primary key (job_id, number, generation, block)
);

-- Pages of events: what one commit said about one job. Only ever appended to, and removed with their job.
create table events (
    job_id    text collate "C" not null,
    first_seq bigint not null,
    last_seq  bigint not null,
    body      text not null,
    primary key (job_id, first_seq)
) with (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);

-- The events one by one, for people who look into the database.
create view event_list as
select events.job_id,
       (event.value ->> 0)::bigint                                  as seq,
       event.value ->> 1                                            as event_type,
       event.value ->> 2                                            as node_id,
       (event.value ->> 3)::integer                                 as "index",
       to_timestamp((event.value ->> 4)::bigint / 1000000.0)        as at,
       event.value -> 5                                             as data,
       event.value -> 6                                             as meta
  from events, json_array_elements(events.body::json) as event;

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

create index requests_waiting on requests (shard, created_at, request_id) where not applied;
create index requests_of_job on requests (job_id);

create table results (
    task_id    text collate "C" not null primary key,
    job_id     text collate "C" not null,
    shard      integer not null,
    message    text not null,
    created_at bigint not null,
    applied    boolean not null default false
) with (autovacuum_vacuum_scale_factor = 0.02);

create index results_waiting on results (shard, created_at, task_id) where not applied;
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

-- Renewed every second or so by each engine: a handful of rows, on pages of their own.
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

-- A column of a batch as one text: drivers are slow with arrays of many elements, and servers are fast at splitting.
-- Elements are told apart by a character that neither ids nor JSON can hold; another one stands for null. No text at
-- all is a column of nulls, or no column: beside others it is filled up with nulls.
create function windlass_texts(joined text) returns text[] language sql immutable parallel safe as $$
    select case when joined = '' then array[''] else string_to_array(joined, e'\x1f', e'\x1e') end
$$;

-- One commit of a shard's owner: one call, one round trip, one transaction. Returns the shard's epoch; when that is not
-- the caller's, nothing was written.
--
-- Commits share a lock on their shard and a takeover wants it alone, so none of them is under way while the epoch
-- changes, and no row is written to find that out. Inside a function every statement sees what was committed before it
-- began: the epoch that is read under the lock is the newest. A caller that is stopped in the middle holds up nobody:
-- the server finishes the call by itself.
create function windlass_commit(
    of_shard integer,
    n_job text, n_node text, n_status text, n_attempt text, n_before text, n_losses text,
    n_first text, n_dispatched text, n_started text, n_completed text, n_due text, n_worker text,
    n_output text, n_error text, n_meta text, n_number text, n_progress text,
    t_job text, t_number text, t_generation text, t_index text, t_status text, t_attempt text,
    t_before text, t_losses text, t_first text, t_dispatched text, t_started text,
    t_completed text, t_due text, t_worker text, t_output text, t_error text, t_meta text,
    t_progress text,
    p_job text, p_number text, p_generation text, p_index text, p_call text, p_output text,
    b_job text, b_number text, b_generation text, b_block text, b_body text,
    e_job text, e_first text, e_last text, e_body text,
    j_job text, j_status text, j_round text, j_started text, j_completed text, j_deadline text,
    j_error text,
    request_ids text, result_ids text, as_epoch bigint
) returns bigint language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    found_epoch bigint;
    count_changed bigint;
begin
    perform pg_advisory_xact_lock_shared(22348, of_shard);
    select epoch into found_epoch from shards where shard = of_shard;
    if found_epoch is distinct from as_epoch then
        return found_epoch;
    end if;
    if n_job is not null then
        insert into nodes (job_id, node_id, status, attempt, attempts_before, losses, first_seq, dispatched_at,
                           started_at, completed_at, due_at, worker_id, output, error, meta, number, progress)
        select * from unnest(windlass_texts(n_job), windlass_texts(n_node), windlass_texts(n_status),
                             n_attempt::integer[], n_before::integer[], n_losses::integer[], n_first::bigint[],
                             n_dispatched::bigint[], n_started::bigint[], n_completed::bigint[], n_due::bigint[],
                             windlass_texts(n_worker), windlass_texts(n_output), windlass_texts(n_error),
                             windlass_texts(n_meta), n_number::integer[], windlass_texts(n_progress))
            on conflict (job_id, number, node_id) do update
           set status = excluded.status, attempt = excluded.attempt, attempts_before = excluded.attempts_before,
               losses = excluded.losses, first_seq = excluded.first_seq, dispatched_at = excluded.dispatched_at,
               started_at = excluded.started_at, completed_at = excluded.completed_at, due_at = excluded.due_at,
               worker_id = excluded.worker_id, output = excluded.output, error = excluded.error, meta = excluded.meta,
               progress = excluded.progress;
    end if;
    if t_job is not null then
        insert into tasks
        select * from unnest(windlass_texts(t_job), t_number::integer[], t_generation::integer[],
                             t_index::integer[], windlass_texts(t_status), t_attempt::integer[],
                             t_before::integer[], t_losses::integer[], t_first::bigint[], t_dispatched::bigint[],
                             t_started::bigint[], t_completed::bigint[], t_due::bigint[], windlass_texts(t_worker),
                             windlass_texts(t_output), windlass_texts(t_error), windlass_texts(t_meta),
                             windlass_texts(t_progress))
            on conflict (job_id, number, generation, "index") do update
           set status = excluded.status, attempt = excluded.attempt, attempts_before = excluded.attempts_before,
               losses = excluded.losses, first_seq = excluded.first_seq, dispatched_at = excluded.dispatched_at,
               started_at = excluded.started_at, completed_at = excluded.completed_at, due_at = excluded.due_at,
               worker_id = excluded.worker_id, output = excluded.output, error = excluded.error, meta = excluded.meta,
               progress = excluded.progress;
    end if;
    if p_job is not null then
        insert into pages
        select * from unnest(windlass_texts(p_job), p_number::integer[], p_generation::integer[], p_index::integer[],
                             p_call::integer[], windlass_texts(p_output))
            on conflict (job_id, number, generation, "index", call) do update set output = excluded.output;
    end if;
    if b_job is not null then
        insert into collections
        select * from unnest(windlass_texts(b_job), b_number::integer[], b_generation::integer[], b_block::integer[],
                             windlass_texts(b_body))
            on conflict (job_id, number, generation, block) do update set body = excluded.body;
    end if;
    if e_job is not null then
        insert into events
        select * from unnest(windlass_texts(e_job), e_first::bigint[], e_last::bigint[], windlass_texts(e_body));
    end if;
    if j_job is not null then
        update jobs
           set status = change.status, round = change.round, started_at = change.started_at,
               completed_at = change.completed_at, deadline_at = change.deadline_at, error = change.error
          from unnest(windlass_texts(j_job), windlass_texts(j_status), j_round::integer[], j_started::bigint[],
                      j_completed::bigint[], j_deadline::bigint[], windlass_texts(j_error))
            as change (job_id, status, round, started_at, completed_at, deadline_at, error)
         where jobs.job_id = change.job_id;
        get diagnostics count_changed = row_count;
        if count_changed <> cardinality(windlass_texts(j_job)) then
            raise exception 'a commit is about jobs of which only % exist: %', count_changed, left(j_job, 200);
        end if;
    end if;
    if request_ids is not null then
        update requests set applied = true where request_id = any (windlass_texts(request_ids));
    end if;
    if result_ids is not null then
        update results set applied = true where task_id = any (windlass_texts(result_ids));
    end if;
    return found_epoch;
end
$$;

-- A new epoch for a shard, alone: commits of the owner before are over, or find the new epoch. No row comes back when
-- the shard is somebody else's whose lease lasts, unless it is taken outright (without a time to live).
create function windlass_take_lease(of_shard integer, new_owner text, ttl_seconds double precision)
returns table (new_epoch bigint, was_abandoned boolean) language plpgsql as $$
declare
    old shards%rowtype;
    ends_at timestamptz := clock_timestamp() + make_interval(secs => ttl_seconds);
begin
    perform pg_advisory_xact_lock(22348, of_shard);
    select * into old from shards where shard = of_shard for update;
    if not found then
        insert into shards values (of_shard, new_owner, 1, ends_at);
        return query select 1::bigint, false;
    elsif ttl_seconds is null or old.owner is null or old.owner = new_owner or old.expires_at <= clock_timestamp() then
        update shards set owner = new_owner, epoch = old.epoch + 1, expires_at = ends_at where shard = of_shard;
        return query select old.epoch + 1, old.owner is not null;
    end if;
end
$$;

-- Numbers of log lines are given out under a lock of their job, until the lines are committed: whoever follows a job by
-- these numbers never sees a later one before an earlier one.
create function windlass_append_logs(
    l_job text, l_node text, l_index text, l_attempt text, l_at text, l_level text, l_message text
) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(22351, place)
       from (select distinct hashtext(job_id) & 255 as place
               from unnest(windlass_texts(l_job)) as job_id order by place) as places;
    insert into logs (job_id, node_id, "index", attempt, at, level, message)
    select * from unnest(windlass_texts(l_job), windlass_texts(l_node), l_index::integer[], l_attempt::integer[],
                         l_at::bigint[], windlass_texts(l_level), windlass_texts(l_message));
end
$$;
