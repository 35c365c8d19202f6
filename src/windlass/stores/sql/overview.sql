-- Queries across jobs, for lists, charts and statistics. All of them are bounded, and none reads inputs or outputs.

-- name: overview_ended_jobs
-- The bound keeps a version that is seldom run from being searched for in the whole history.
select {job_brief_columns} from (
    select * from jobs where workflow_id = :workflow_id order by created_at desc, job_id desc limit :examined_max
) as newest
 where is_ended and (version = :version or :version is null)
 order by created_at desc, job_id desc limit :limit;

-- name: overview_active_jobs
-- Two index scans, by creation and by end; the union removes jobs that both find.
with changed as (
    select * from (
        select job_id from jobs where created_at >= :since order by created_at desc limit :limit
    ) as created
    union
    select * from (
        select job_id from jobs where is_ended and completed_at >= :since order by completed_at desc limit :limit
    ) as ended
)
select {job_brief_columns jobs} from changed join jobs on jobs.job_id = changed.job_id
 order by {greatest}(created_at, coalesce(completed_at, 0)) desc, jobs.job_id limit :limit;

-- name: overview_unfinished_count
select count(*) from (select 1 from jobs where not is_ended limit :limit) as unfinished;

-- name: overview_node_spans
select {node_span_columns} from node_list where job_id {in_texts :job_ids} limit :limit;

-- name: overview_chunks
select body from collection_chunks
 where job_id = :job_id and number = :number and generation = :generation and chunk >= :first and chunk <= :last
 order by chunk;
