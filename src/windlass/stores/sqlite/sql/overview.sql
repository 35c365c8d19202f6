-- Questions across jobs, for lists, charts and statistics. All of them are bounded, and none reads inputs or outputs.

-- name: jobs_found
-- The start of a job's id, the start of its workflow's, or its whole idempotency key. Each way is a walk along an index
-- that ends with its page. Ids begin with the time: few jobs with one start are sorted, many are met soon in the order
-- of the list. Keys are unique in a workflow: each workflow is asked for it.
with names (workflow_id) as (
    select distinct workflow_id from workflows where :workflow_id is null or workflow_id = :workflow_id
), pages (of_few, of_many) as (
    -- A walk whose page is empty does not begin.
    select iif(count(*) < :few, :limit, 0), iif(count(*) < :few, 0, :limit) from (
        select 1 from jobs where job_id >= :term and job_id < :term_end limit :few
    )
), found (job_id) as (
    select job_id from (
        select job_id from jobs
         where job_id >= :term and job_id < :term_end
           and (:workflow_id is null or workflow_id = :workflow_id) and (:status is null or status = :status)
           and (:before_at is null or (created_at, job_id) < (:before_at, :before_id))
         order by created_at desc, job_id desc limit (select of_few from pages)
    )
    union
    select job_id from (
        -- The index has all that is needed to pass over the other jobs.
        select job_id from jobs as near indexed by jobs_newest
         where +job_id >= :term and +job_id < :term_end
           and ((:workflow_id is null and :status is null) or exists (
                select 1 from jobs
                 where job_id = near.job_id and (:workflow_id is null or workflow_id = :workflow_id)
                   and (:status is null or status = :status)
           ))
           and (:before_at is null or (created_at, job_id) < (:before_at, :before_id))
         order by created_at desc, job_id desc limit (select of_many from pages)
    )
    union
    select near.job_id from names join jobs as near
        on near.job_id in (
            select job_id from jobs
             where workflow_id = names.workflow_id and (:status is null or status = :status)
               and (:before_at is null or (created_at, job_id) < (:before_at, :before_id))
             order by created_at desc, job_id desc limit :limit
        )
     where names.workflow_id >= :term and names.workflow_id < :term_end
    union
    -- A cross join is made in the order in which it is written.
    select job_id from names cross join jobs
     where jobs.workflow_id = names.workflow_id and idempotency_key = :term and (:status is null or status = :status)
       and (:before_at is null or (created_at, job_id) < (:before_at, :before_id))
)
select *, 0 as seq from jobs where job_id in (select job_id from found)
 order by created_at desc, job_id desc limit :limit;

-- name: jobs_newest_of_workflow
select *, 0 as seq from jobs
 where workflow_id = :workflow_id
   and (:status is null or status = :status)
   and (:before_at is null or (created_at, job_id) < (:before_at, :before_id))
 order by created_at desc, job_id desc limit :limit;

-- name: recent_jobs
select near.job_id, near.workflow_id, near.version, near.status, near.created_at, near.started_at, near.completed_at
  from json_each(?1) as wanted join jobs as near
    on near.job_id in (
        select job_id from jobs where workflow_id = wanted.value order by created_at desc, job_id desc limit ?2
    )
 order by near.workflow_id, near.created_at desc, near.job_id desc;

-- name: ended_jobs_of_workflow
-- A version that is seldom run is not looked for through the whole history.
select job_id, workflow_id, version, status, created_at, started_at, completed_at from (
    select * from jobs where workflow_id = ?1 order by created_at desc, job_id desc limit ?4
) where status not in ('pending', 'running') and (?2 is null or version = ?2)
 order by created_at desc, job_id desc limit ?3;

-- name: active_jobs
-- Two walks, by the time of creation and by that of the end; a job that is met by both comes once.
select job_id, workflow_id, version, status, created_at, started_at, completed_at from jobs
 where job_id in (
    select * from (select job_id from jobs where created_at >= ?1 order by created_at desc limit ?2)
    union
    select * from (select job_id from jobs where completed_at >= ?1 order by completed_at desc limit ?2)
 )
 order by max(created_at, coalesce(completed_at, 0)) desc, job_id limit ?2;

-- name: count_unfinished
select count(*) from (select 1 from jobs where status in ('pending', 'running') limit ?);

-- name: node_spans
select job_id, node_id, status, attempt, started_at, completed_at from node_list
 where job_id in (select value from json_each(?1)) limit ?2;

-- name: chunks_between
select body from collection_chunks
 where job_id = ? and number = ? and generation = ? and chunk >= ? and chunk <= ? order by chunk;
