-- Views and functions. The migrator runs this file again whenever its text changes, so each of them is changed here
-- and nowhere else. Processes of two versions may use the database at the same time: a function whose parameters or
-- meaning change gets a new name, or comes with a migration, which older versions refuse.

drop view if exists event_list, event_pages, job_created_pages, node_list;
drop function if exists windlass_commit, windlass_put_runs, windlass_take_lease, windlass_append_logs, windlass_texts;

-- All nodes that left pending, with or without a row of their own.
create view node_list as
select {node_columns} from nodes
union all
select {in_flight_columns}
  from jobs
 cross join lateral (
    select in_flight from events where events.job_id = jobs.job_id order by first_seq desc limit 1
) as newest
 cross join lateral json_array_elements(newest.in_flight::json) as entry;

-- The page of each job's first event, job_created, which is not stored.
create view job_created_pages as
select job_id, 1::bigint as first_seq, 1::bigint as last_seq,
       format('[[1,"job_created",null,null,%s,{"workflow_id":%s,"version":%s},null,null,null]]', created_at,
              to_json(workflow_id), version) as body
  from jobs;

create view event_pages as
select job_id, first_seq, last_seq, body from events
union all
select job_id, first_seq, last_seq, body from job_created_pages;

-- One row per event, for ad hoc queries.
create view event_list as
select event_pages.job_id,
       (event.value ->> 0)::bigint                           as seq,
       event.value ->> 1                                     as event_type,
       event.value ->> 2                                     as node_id,
       (event.value ->> 3)::integer                          as "index",
       to_timestamp((event.value ->> 4)::bigint / 1000000.0) as at,
       event.value -> 5                                      as data,
       event.value -> 6                                      as meta
  from event_pages, json_array_elements(event_pages.body::json) as event;

-- Split a column of a batch that was sent as one text: asyncpg is slow at encoding arrays of many elements. Elements
-- are separated by a character that neither ids nor JSON contain; a second one stands for null. A null text is a
-- column of nulls, or no column: unnest fills it up with nulls.
create function windlass_texts(joined text) returns text[] language sql immutable parallel safe as $$
    select case when joined = '' then array[''] else string_to_array(joined, e'\x1f', e'\x1e') end
$$;

-- Store the commits of several shards in one call: one round trip and one transaction. Returns the shards whose epoch
-- is not the caller's, with the epoch they have; when there are any, nothing was written.
--
-- Commits share a lock on each of their shards, and a takeover takes that lock exclusively, so no commit is in
-- progress while the epoch changes. Inside a function each statement sees what was committed before it started: the
-- epoch read under the lock is the newest. A takeover takes no other lock that a commit needs, so there are no
-- deadlocks. A client that is paused in the middle blocks nobody: the server finishes the call by itself. Plans are
-- made once, perhaps while tables are empty, so the planner's alternatives to finding rows by their keys are disabled.
create function windlass_commit(
    of_shards text, as_epochs text,
    n_job text, n_node text, n_status text, n_attempt text, n_before text, n_losses text,
    n_first text, n_dispatched text, n_started text, n_completed text, n_due text, n_worker text,
    n_output text, n_error text, n_meta text, n_number text, n_progress text,
    t_job text, t_number text, t_generation text, t_index text, t_status text, t_attempt text,
    t_before text, t_losses text, t_first text, t_dispatched text, t_started text,
    t_completed text, t_due text, t_worker text, t_output text, t_error text, t_meta text,
    t_progress text,
    p_job text, p_number text, p_generation text, p_index text, p_call text, p_output text,
    b_job text, b_number text, b_generation text, b_chunk text, b_body text,
    e_job text, e_first text, e_last text, e_body text, e_in_flight text,
    j_job text, j_status text, j_round text, j_started text, j_completed text, j_deadline text,
    j_error text,
    request_ids text, result_ids text, result_verdicts text
) returns table (stale_shard integer, newest_epoch bigint) language plpgsql
set plan_cache_mode = force_generic_plan set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $$
declare
    count_changed bigint;
begin
    perform pg_advisory_xact_lock_shared(22348, given.shard) from unnest(of_shards::integer[]) as given (shard);
    return query
        select given.shard, shards.epoch
          from unnest(of_shards::integer[], as_epochs::bigint[]) as given (shard, epoch)
          left join shards on shards.shard = given.shard
         where shards.epoch is distinct from given.epoch;
    if found then
        return;
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
        insert into iterations
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
        insert into call_outputs
        select * from unnest(windlass_texts(p_job), p_number::integer[], p_generation::integer[], p_index::integer[],
                             p_call::integer[], windlass_texts(p_output))
            on conflict (job_id, number, generation, "index", call) do update set output = excluded.output;
    end if;
    if b_job is not null then
        insert into collection_chunks
        select * from unnest(windlass_texts(b_job), b_number::integer[], b_generation::integer[], b_chunk::integer[],
                             windlass_texts(b_body))
            on conflict (job_id, number, generation, chunk) do update set body = excluded.body;
    end if;
    if e_job is not null then
        insert into events (job_id, first_seq, last_seq, body, in_flight)
        select * from unnest(windlass_texts(e_job), e_first::bigint[], e_last::bigint[], windlass_texts(e_body),
                             windlass_texts(e_in_flight));
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
            raise exception 'commit updates jobs that do not exist: only % found of %', count_changed, left(j_job, 200);
        end if;
    end if;
    if request_ids is not null then
        update requests set applied = true where request_id = any (windlass_texts(request_ids));
    end if;
    if result_ids is not null then
        -- The first verdict stays: a message that is delivered again is judged again.
        delete from results
         using unnest(windlass_texts(result_ids), windlass_texts(result_verdicts)) as given (result_id, verdict)
         where results.result_id = given.result_id and results.verdict is null and given.verdict = 'unknown';
        update results set verdict = given.verdict
          from unnest(windlass_texts(result_ids), windlass_texts(result_verdicts)) as given (result_id, verdict)
         where results.result_id = given.result_id and results.verdict is null;
    end if;
end
$$;

-- Store the changes of a commit to runs, given as one JSON document. Called in the same statement as windlass_commit
-- and before it, and only when there are such changes. It checks the epochs under the same locks, so that both
-- functions write or neither does. A new run under an existing id fails the whole commit.
create function windlass_put_runs(of_shards text, as_epochs text, document text) returns boolean
language plpgsql as $$
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

-- Give a shard a new epoch. The exclusive lock waits for commits under the old epoch. Returns no row when another
-- owner holds an unexpired lease, unless the lease is taken unconditionally (without a time to live).
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

-- Append log lines. Ids are assigned under a lock per job until the lines are committed, so that a reader that follows
-- a job by these ids never sees a later line before an earlier one.
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
