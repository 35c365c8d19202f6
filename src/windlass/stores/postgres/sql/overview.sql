-- Questions across jobs, for lists, charts and statistics. All of them are bounded, and none reads inputs or outputs.

-- name: jobs_found
-- The start of a job's id, the start of its workflow's, or its whole idempotency key. Each way is a walk along an index
-- that ends with its page. Ids begin with the time: few jobs with one start are sorted, many are met soon in the order
-- of the list. Keys are unique in a workflow: each workflow is asked for it.
with names as (
    select distinct workflow_id from workflows where $1::text is null or workflow_id = $1
), pages as (
    -- A walk whose page is empty does not begin.
    select case when count(*) < $8::integer then $5::integer else 0 end as of_few,
           case when count(*) < $8::integer then 0 else $5::integer end as of_many
      from (select from jobs where job_id >= $6 and job_id < $7 limit $8::integer) as some_of_them
), found as (
    (select job_id from jobs
      where job_id >= $6 and job_id < $7
        and ($1::text is null or workflow_id = $1) and ($2::text is null or status = $2)
        and ($3::bigint is null or (created_at, job_id) < ($3, $4::text))
      order by created_at desc, job_id desc limit (select of_few from pages))
    union
    (select job_id from jobs
      where job_id || '' >= $6 and job_id || '' < $7
        and ($1::text is null or workflow_id = $1) and ($2::text is null or status = $2)
        and ($3::bigint is null or (created_at, job_id) < ($3, $4::text))
      order by created_at desc, job_id desc limit (select of_many from pages))
    union
    select near.job_id from names cross join lateral (
        select job_id from jobs
         where workflow_id = names.workflow_id and ($2::text is null or status = $2)
           and ($3::bigint is null or (created_at, job_id) < ($3, $4::text))
         order by created_at desc, job_id desc limit $5
    ) as near
     where names.workflow_id >= $6 and names.workflow_id < $7
    union
    select job_id from names join jobs using (workflow_id)
     where idempotency_key = $6 and ($2::text is null or status = $2)
       and ($3::bigint is null or (created_at, job_id) < ($3, $4::text))
)
select job_id, workflow_id, version, shard, status, input, round, priority, created_at, started_at, completed_at,
       deadline_at, error, idempotency_key, request_digest, scheduled_at, 0 as seq
  from jobs join found using (job_id) order by created_at desc, job_id desc limit $5;

-- name: jobs_newest_of_workflow
select job_id, workflow_id, version, shard, status, input, round, priority, created_at, started_at, completed_at,
       deadline_at, error, idempotency_key, request_digest, scheduled_at, 0 as seq
  from jobs
 where workflow_id = $1
   and ($2::text is null or status = $2)
   and ($3::bigint is null or (created_at, job_id) < ($3, $4::text))
 order by created_at desc, job_id desc limit $5;

-- name: recent_jobs
select near.* from unnest($1::text[]) as wanted (workflow_id) cross join lateral (
    select job_id, workflow_id, version, status, created_at, started_at, completed_at from jobs
     where workflow_id = wanted.workflow_id order by created_at desc, job_id desc limit $2
) as near order by near.workflow_id, near.created_at desc, near.job_id desc;

-- name: ended_jobs_of_workflow
-- A version that is seldom run is not looked for through the whole history.
select job_id, workflow_id, version, status, created_at, started_at, completed_at from (
    select * from jobs where workflow_id = $1 order by created_at desc, job_id desc limit $4
) as newest where is_ended and ($2::integer is null or version = $2)
 order by created_at desc, job_id desc limit $3;

-- name: active_jobs
-- Two walks, by the time of creation and by that of the end; a job that is met by both comes once.
with met as (
    (select job_id from jobs where created_at >= $1 order by created_at desc limit $2)
    union
    (select job_id from jobs where is_ended and completed_at >= $1 order by completed_at desc limit $2)
)
select job_id, workflow_id, version, status, created_at, started_at, completed_at from jobs join met using (job_id)
 order by greatest(created_at, coalesce(completed_at, 0)) desc, job_id limit $2;

-- name: count_unfinished
select count(*) from (select from jobs where not is_ended limit $1) as found;

-- name: node_spans
select job_id, node_id, status, attempt, started_at, completed_at from node_list
 where job_id = any ($1::text[]) limit $2;

-- name: chunks_between
select body from collection_chunks
 where job_id = $1 and number = $2 and generation = $3 and chunk >= $4 and chunk <= $5 order by chunk;
