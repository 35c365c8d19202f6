-- Jobs, their nodes, iterations and events.

-- name: job_get
-- The last sequence number is read from the events: storing it in the row would make every commit write the row.
-- Without events it is 1, the number of job_created, which is derived from the row.
select {job_columns},
       coalesce((select last_seq from events where events.job_id = jobs.job_id order by first_seq desc limit 1), 1)
  from jobs where job_id = :job_id;

-- name: job_positions
select job_id,
       coalesce((select last_seq from events where events.job_id = jobs.job_id order by first_seq desc limit 1), 1),
       status
  from jobs where job_id {in_texts :job_ids};

-- name: job_list
select {job_columns}, 0 from jobs
 where {job_filter}
   and ((created_at, job_id) < (:before_at, :before_id) or :before_at is null)
 order by created_at desc, job_id desc limit :limit;

-- name: job_list_of_workflow
select {job_columns}, 0 from jobs
 where workflow_id = :workflow_id
   and {job_filter}
   and ((created_at, job_id) < (:before_at, :before_id) or :before_at is null)
 order by created_at desc, job_id desc limit :limit;

-- name: job_list_unsuccessful
-- Few jobs fail or are cancelled, so an index of them costs little, and the list does not search the history for them.
select {job_columns}, 0 from jobs {with_index jobs_unsuccessful}
 where status in ('failed', 'cancelled') and status = :status
   and {job_filter}
   and ((created_at, job_id) < (:before_at, :before_id) or :before_at is null)
 order by created_at desc, job_id desc limit :limit;

-- name: job_list_unsuccessful_of_workflow
select {job_columns}, 0 from jobs {with_index jobs_unsuccessful_of_workflow}
 where status in ('failed', 'cancelled') and status = :status and workflow_id = :workflow_id
   and {job_filter}
   and ((created_at, job_id) < (:before_at, :before_id) or :before_at is null)
 order by created_at desc, job_id desc limit :limit;

-- name: job_list_unfinished
-- Of the jobs that have not ended, however long ago they began: they are few, and are sorted.
select {job_columns}, 0 from jobs {with_index jobs_unfinished}
 where not is_ended
   and {job_filter}
   and ((created_at, job_id) < (:before_at, :before_id) or :before_at is null)
 order by created_at desc, job_id desc limit :limit;

-- name: job_list_unfinished_of_workflow
select {job_columns}, 0 from jobs {with_index jobs_unfinished}
 where not is_ended and workflow_id = :workflow_id
   and {job_filter}
   and ((created_at, job_id) < (:before_at, :before_id) or :before_at is null)
 order by created_at desc, job_id desc limit :limit;

-- name: job_unfinished
select job_id from jobs where shard = :shard and not is_ended order by created_at, job_id;

-- name: node_list
select {node_columns} from node_list where job_id = :job_id;

-- name: node_get
select {node_columns} from node_list where job_id = :job_id and node_id = :node_id;

-- name: node_page
-- The primary key starts with the job and the number, so a page is one range of it.
select {node_columns} from node_list
 where job_id = :job_id and number >= :first and number < :stop order by number;

-- name: node_briefs
-- 32 characters of the output are enough to see what kind of value it is.
select number, status, completed_at, substr(output, 1, 32), meta, progress from node_list
 where job_id = :job_id and number {in_integers :numbers};

-- name: event_pages
-- Sequence numbers have no gaps: the first page to read is the last one that starts at or before the first number, and
-- no page after the last number is needed. Not from the view event_pages, which would read all pages of the job.
select body, first_seq from job_created_pages where job_id = :job_id and cast(:after as bigint) = 0
union all
select body, first_seq from events
 where job_id = :job_id and last_seq > :after and first_seq <= :after + :limit
   and first_seq >= coalesce((select max(first_seq) from events where job_id = :job_id and first_seq <= :after + 1), 0)
 order by first_seq;

-- name: chunk_list
select body from collection_chunks
 where job_id = :job_id and number = :number and generation = :generation order by chunk;

-- name: iteration_list
select {iteration_columns} from iterations
 where job_id = :job_id and number = :number and generation = :generation and "index" > :after
   and (status = :status or :status is null)
 order by "index" limit :limit;

-- name: iteration_counts
-- The status comes before the output in a row, so large outputs are not read.
select status, count(*) from iterations
 where job_id = :job_id and number = :number and generation = :generation group by status;

-- name: iteration_gaps
-- Ranges of indexes without a row: between two rows, before the first and after the last.
with found as (
    select cast(:after as integer) as "index"
    union all
    select "index" from iterations
     where job_id = :job_id and number = :number and generation = :generation
       and "index" > :after and "index" < :begun
    union all
    select cast(:begun as integer)
)
select "index" + 1, following
  from (select "index", lead("index") over (order by "index") as following from found) as pairs
 where following > "index" + 1 order by "index" limit :limit;

-- name: iteration_outputs
select "index", output from iterations
 where job_id = :job_id and number = :number and generation = :generation
   and "index" >= :start and "index" < :stop and output is not null
 order by "index";

-- name: call_output_list
select output from call_outputs
 where job_id = :job_id and number = :number and generation = :generation and "index" = :index and call <= :calls
 order by call;

-- name: request_unapplied
select request_id from requests where not applied and request_id {in_texts :request_ids};

-- name: result_insert
insert into results (result_id, job_id, shard, message, created_at)
values (:result_id, :job_id, :shard, :message, :created_at);

-- name: result_verdicts
select result_id, verdict from results where result_id {in_texts :result_ids};

-- name: log_list
select log_id, {log_columns} from logs
 where job_id = :job_id and log_id > :after
   and (node_id = :node_id or :node_id is null)
   and (attempt = :attempt or :attempt is null)
   and ("index" = :index or :index is null)
 order by log_id limit :limit;
