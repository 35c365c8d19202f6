-- The first event of a job, that it was made, is its row: no page repeats it. Earlier versions stored one.
create view first_pages as
select job_id, 1::bigint as first_seq, 1::bigint as last_seq,
       format('[[1,"job_created",null,null,%s,{"workflow_id":%s,"version":%s},null,null,null]]', created_at,
              to_json(workflow_id), version) as body
  from jobs
 where not exists (select from events where events.job_id = jobs.job_id and first_seq = 1);

create view event_pages as
select job_id, first_seq, last_seq, body from events
union all
select job_id, first_seq, last_seq, body from first_pages;

create or replace view event_list as
select event_pages.job_id,
       (event.value ->> 0)::bigint                                  as seq,
       event.value ->> 1                                            as event_type,
       event.value ->> 2                                            as node_id,
       (event.value ->> 3)::integer                                 as "index",
       to_timestamp((event.value ->> 4)::bigint / 1000000.0)        as at,
       event.value -> 5                                             as data,
       event.value -> 6                                             as meta
  from event_pages, json_array_elements(event_pages.body::json) as event;

-- As before, without pages for the jobs that runs make.
create or replace function windlass_put_runs(of_shards text, as_epochs text, document text) returns boolean
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
