-- name: job_search
-- By the start of the job's id, the start of its workflow's id, or its whole idempotency key; each part is an index
-- scan that ends with its page. Job ids start with the time: few jobs with the same start are sorted, many are found
-- early in the order of the list. Keys are unique per workflow, so each workflow is searched for the key.
with names (workflow_id) as (
    select distinct workflow_id from workflows where :workflow_id is null or workflow_id = :workflow_id
), page_sizes (of_few, of_many) as (
    -- A scan with a limit of 0 does not start.
    select iif(count(*) < :few, :limit, 0), iif(count(*) < :few, 0, :limit) from (
        select 1 from jobs where job_id >= :term and job_id < :term_end limit :few
    )
), found (job_id) as (
    select job_id from (
        select job_id from jobs
         where job_id >= :term and job_id < :term_end
           and (:workflow_id is null or workflow_id = :workflow_id) and {job_filter}
           and (:before_at is null or (created_at, job_id) < (:before_at, :before_id))
         order by created_at desc, job_id desc limit (select of_few from page_sizes)
    )
    union
    select job_id from (
        -- The index covers everything that is needed to skip other jobs.
        select job_id from jobs as near indexed by jobs_newest
         where +job_id >= :term and +job_id < :term_end
           and ((:workflow_id is null and {job_filter_is_unset}) or exists (
                select 1 from jobs
                 where job_id = near.job_id and (:workflow_id is null or workflow_id = :workflow_id)
                   and {job_filter}
           ))
           and (:before_at is null or (created_at, job_id) < (:before_at, :before_id))
         order by created_at desc, job_id desc limit (select of_many from page_sizes)
    )
    union
    select near.job_id from names join jobs as near
        on near.job_id in (
            select job_id from jobs
             where workflow_id = names.workflow_id and {job_filter}
               and (:before_at is null or (created_at, job_id) < (:before_at, :before_id))
             order by created_at desc, job_id desc limit :limit
        )
     where names.workflow_id >= :term and names.workflow_id < :term_end
    union
    -- SQLite keeps the written order of a cross join.
    select job_id from names cross join jobs
     where jobs.workflow_id = names.workflow_id and idempotency_key = :term and {job_filter}
       and (:before_at is null or (created_at, job_id) < (:before_at, :before_id))
)
select {job_columns}, 0 from jobs where job_id in (select job_id from found)
 order by created_at desc, job_id desc limit :limit;

-- name: overview_recent_jobs
select {job_brief_columns near}
  from json_each(:workflow_ids) as wanted join jobs as near
    on near.job_id in (
        select job_id from jobs where workflow_id = wanted.value order by created_at desc, job_id desc limit :each
    )
 order by near.workflow_id, near.created_at desc, near.job_id desc;
