-- Views and functions. The migrator runs this file again whenever its text changes, so each of them is changed here
-- and nowhere else. Processes of two versions may use the database at the same time: a function whose parameters or
-- meaning change gets a new name, or comes with a migration, which older versions refuse.

drop view if exists run_event_list, event_list, event_pages, job_created_pages, node_list;
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

-- The same for the events of runs, and of schedules, whose run_id is empty.
create view run_event_list as
select run_events.workflow_id,
       run_events.run_id,
       (event.value ->> 0)::bigint                           as seq,
       event.value ->> 1                                     as event_type,
       to_timestamp((event.value ->> 4)::bigint / 1000000.0) as at,
       event.value -> 5                                      as data
  from run_events, json_array_elements(run_events.body::json) as event;

-- Split a column of a batch that was sent as one text (parameters.py). Elements are separated by a character that
-- neither ids nor JSON contain; a second one stands for null. A null text is a column of nulls: unnest fills it up.
create function windlass_texts(joined text) returns text[] language sql immutable parallel safe as $$
    select case when joined = '' then array[''] else string_to_array(joined, e'\x1f', e'\x1e') end
$$;

-- Store the commits of several shards in one call: one round trip and one transaction. Returns the shards whose epoch
-- is not the caller's, with the epoch they have; when there are any, nothing was written. Each table's rows are an
-- array with one text per column, null when there are none; ids are one text.
--
-- Commits share a lock on each of their shards, and a takeover takes that lock exclusively, so no commit is in
-- progress while the epoch changes. Inside a function each statement sees what was committed before it started: the
-- epoch read under the lock is the newest. A takeover takes no other lock that a commit needs, so there are no
-- deadlocks. A client that is paused in the middle blocks no other: the server finishes the call by itself. Plans are
-- made once, perhaps while tables are empty, so the planner's alternatives to finding rows by their keys are disabled.
create function windlass_commit(
    of_shards integer[], as_epochs bigint[], node_values text[], iteration_values text[], call_output_values text[],
    chunk_values text[], event_page_values text[], job_change_values text[], request_ids text, result_ids text,
    result_verdicts text, runs jsonb
) returns table (stale_shard integer, newest_epoch bigint) language plpgsql
set plan_cache_mode = force_generic_plan set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $$
declare
    count_changed bigint;
begin
    perform pg_advisory_xact_lock_shared(22348, given.shard) from unnest(of_shards) as given (shard);
    return query
        select given.shard, shards.epoch
          from unnest(of_shards, as_epochs) as given (shard, epoch)
          left join shards on shards.shard = given.shard
         where shards.epoch is distinct from given.epoch;
    if found then
        return;
    end if;
    -- First, because the changes may be about jobs that are created here.
    if runs is not null then
        perform windlass_put_runs(runs);
    end if;
    if node_values is not null then
        insert into nodes ({node_columns})
        select * from unnest({node_arrays node_values})
            on conflict (job_id, number, node_id) do update set {node_assignments excluded};
    end if;
    if iteration_values is not null then
        insert into iterations ({iteration_columns})
        select * from unnest({iteration_arrays iteration_values})
            on conflict (job_id, number, generation, "index") do update set {iteration_assignments excluded};
    end if;
    if call_output_values is not null then
        insert into call_outputs ({call_output_columns})
        select * from unnest({call_output_arrays call_output_values})
            on conflict (job_id, number, generation, "index", call) do update set {call_output_assignments excluded};
    end if;
    if chunk_values is not null then
        insert into collection_chunks ({chunk_columns})
        select * from unnest({chunk_arrays chunk_values})
            on conflict (job_id, number, generation, chunk) do update set {chunk_assignments excluded};
    end if;
    if event_page_values is not null then
        insert into events ({event_page_columns})
        select * from unnest({event_page_arrays event_page_values});
    end if;
    if job_change_values is not null then
        update jobs
           set {job_change_assignments change}
          from unnest({job_change_arrays job_change_values}) as change ({job_change_columns})
         where jobs.job_id = change.job_id;
        get diagnostics count_changed = row_count;
        if count_changed <> cardinality(windlass_texts(job_change_values[1])) then
            raise exception 'commit updates jobs that do not exist: only % found of %', count_changed,
                left(job_change_values[1], 200);
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

-- Store the changes of a commit to runs, given as one JSON document with arrays of rows. windlass_commit calls it under
-- its locks. A new run under an existing id fails the whole commit.
create function windlass_put_runs(document jsonb) returns void language plpgsql as $$
begin
    insert into runs ({run_columns})
    select {run_columns} from jsonb_to_recordset(document -> 'inserted') as given ({run_record});
    update runs
       set {run_assignments new}
      from jsonb_to_recordset(document -> 'updated') as new ({run_record})
     where runs.run_id = new.run_id;
    delete from runs using jsonb_array_elements_text(document -> 'withdrawn') as withdrawn
     where runs.run_id = withdrawn;
    -- Never back: a resume may have advanced it in the meantime.
    update schedules
       set slot_at = greatest(schedules.slot_at, mark.slot_at), seq = greatest(schedules.seq, mark.seq)
      from jsonb_to_recordset(document -> 'schedules') as mark ({schedule_mark_record})
     where schedules.workflow_id = mark.workflow_id;
    insert into run_events ({run_event_page_columns})
    select {run_event_page_columns}
      from jsonb_to_recordset(document -> 'events') as given ({run_event_page_record});
    insert into jobs ({job_spec_columns}, status, round)
    select {job_spec_columns}, 'pending', 0
      from jsonb_to_recordset(document -> 'jobs') as given ({job_spec_record});
    delete from run_requests using jsonb_array_elements_text(document -> 'requests') as applied
     where run_requests.request_id = applied;
    insert into deliveries ({delivery_columns})
    select {delivery_columns} from jsonb_to_recordset(document -> 'deliveries') as given ({delivery_record})
        on conflict (delivery_id) do nothing;
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
create function windlass_append_logs(log_values text[]) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(22351, place)
       from (select distinct hashtext(job_id) & 255 as place
               from unnest(windlass_texts(log_values[1])) as job_id order by place) as places;
    insert into logs ({log_columns})
    select * from unnest({log_arrays log_values});
end
$$;
