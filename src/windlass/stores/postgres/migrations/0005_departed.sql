-- Nodes that are out with a worker for the first time have no row. The newest page of their job's events names them
-- all, as a JSON array of [number, node_id, first_seq, dispatched_at].
alter table events add column departed text;

-- The nodes that left pending, with a row or without: what is to be shown of a job.
create view node_list as
select job_id, node_id, status, attempt, attempts_before, losses, first_seq, dispatched_at, started_at, completed_at,
       due_at, worker_id, output, error, meta, number, progress
  from nodes
union all
select jobs.job_id, one.value ->> 1, 'dispatched', 1, 0, 0, (one.value ->> 2)::bigint, (one.value ->> 3)::bigint,
       null, null, null, null, null, null, null, (one.value ->> 0)::integer, null
  from jobs
 cross join lateral (
    select departed from events where events.job_id = jobs.job_id order by first_seq desc limit 1
) as newest
 cross join lateral json_array_elements(newest.departed::json) as one;

-- As before, and pages come with the nodes that are out.
drop function windlass_commit;

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
    b_job text, b_number text, b_generation text, b_block text, b_body text,
    e_job text, e_first text, e_last text, e_body text, e_departed text,
    j_job text, j_status text, j_round text, j_started text, j_completed text, j_deadline text,
    j_error text,
    request_ids text, result_ids text
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
        insert into events (job_id, first_seq, last_seq, body, departed)
        select * from unnest(windlass_texts(e_job), e_first::bigint[], e_last::bigint[], windlass_texts(e_body),
                             windlass_texts(e_departed));
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
end
$$;
