-- name: job_search
-- By the start of the job's id, the start of its workflow's id, or its whole idempotency key; each part is an index
-- scan that ends with its page. Job ids start with the time: few jobs with the same start are sorted, many are found
-- early in the order of the list. Keys are unique per workflow, so each workflow is searched for the key.
with names as (
    select distinct workflow_id from workflows where :workflow_id::text is null or workflow_id = :workflow_id
), page_sizes as (
    -- A scan with a limit of 0 does not start.
    select case when count(*) < :few::integer then :limit::integer else 0 end as of_few,
           case when count(*) < :few::integer then 0 else :limit::integer end as of_many
      from (select from jobs where job_id >= :term and job_id < :term_end limit :few::integer) as some_of_them
), found as (
    (select job_id from jobs
      where job_id >= :term and job_id < :term_end
        and (:workflow_id::text is null or workflow_id = :workflow_id) and {job_filter}
        and (:before_at::bigint is null or (created_at, job_id) < (:before_at, :before_id::text))
      order by created_at desc, job_id desc limit (select of_few from page_sizes))
    union
    (select job_id from jobs
      where job_id || '' >= :term and job_id || '' < :term_end
        and (:workflow_id::text is null or workflow_id = :workflow_id) and {job_filter}
        and (:before_at::bigint is null or (created_at, job_id) < (:before_at, :before_id::text))
      order by created_at desc, job_id desc limit (select of_many from page_sizes))
    union
    select near.job_id from names cross join lateral (
        select job_id from jobs
         where workflow_id = names.workflow_id and {job_filter}
           and (:before_at::bigint is null or (created_at, job_id) < (:before_at, :before_id::text))
         order by created_at desc, job_id desc limit :limit
    ) as near
     where names.workflow_id >= :term and names.workflow_id < :term_end
    union
    select job_id from names join jobs using (workflow_id)
     where idempotency_key = :term and {job_filter}
       and (:before_at::bigint is null or (created_at, job_id) < (:before_at, :before_id::text))
)
select {job_columns jobs}, 0 from jobs join found on found.job_id = jobs.job_id
 order by jobs.created_at desc, jobs.job_id desc limit :limit;

-- name: overview_recent_jobs
select near.* from unnest(:workflow_ids::text[]) as wanted (workflow_id) cross join lateral (
    select {job_brief_columns} from jobs
     where jobs.workflow_id = wanted.workflow_id order by created_at desc, job_id desc limit :each
) as near order by near.workflow_id, near.created_at desc, near.job_id desc;
