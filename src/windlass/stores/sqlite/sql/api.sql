-- What the API asks for, beyond what the engine does.

-- name: workflows_by_id
-- The newest version of each; the inner query is a search of the primary key for every workflow.
select workflow_id, version, definition, digest, created_at from workflows as newest
 where workflow_id > ? and deleted_at is null
   and version = (select max(version) from workflows where workflow_id = newest.workflow_id)
 order by workflow_id limit ?;

-- name: versions_of_workflow
select workflow_id, version, definition, digest, created_at from workflows
 where workflow_id = ? order by version desc;

-- name: unfinished_of_workflow
select count(*) from jobs where workflow_id = ? and status in ('pending', 'running');

-- name: delete_workflow
-- All versions: a workflow that is deployed again begins with a new one, and only that one is live.
update workflows set deleted_at = ? where workflow_id = ? and deleted_at is null returning version;

-- name: is_deleted
select 1 from workflows as newest where workflow_id = ? and deleted_at is not null
   and version = (select max(version) from workflows where workflow_id = newest.workflow_id);

-- name: aliases_of_workflow
select alias, targets from aliases where workflow_id = ? order by alias;

-- name: put_alias
insert or replace into aliases (workflow_id, alias, targets, updated_at) values (?, ?, ?, ?);

-- name: delete_alias
delete from aliases where workflow_id = ? and alias = ?;

-- name: count_versions
select count(*) from workflows where workflow_id = ? and version in (select value from json_each(?));

-- name: insert_result
insert or ignore into results (task_id, job_id, shard, message, created_at) values (?, ?, ?, ?, ?) returning task_id;

-- name: waiting_results
select task_id, shard, message, created_at from results
 where shard = ? and applied = 0 order by created_at, task_id limit ?;

-- name: apply_results
update results set applied = 1 where task_id in (select value from json_each(?));

-- name: insert_logs
insert into logs (job_id, node_id, "index", attempt, at, level, message) values (?, ?, ?, ?, ?, ?, ?);

-- name: logs_of_job
select job_id, node_id, "index", attempt, at, level, message, log_id from logs
 where job_id = :job_id and log_id > :after
   and (:node_id is null or node_id = :node_id)
   and (:attempt is null or attempt = :attempt)
   and (:index is null or "index" = :index)
 order by log_id limit :limit;

-- name: nodes_by_number
-- Numbers begin the key after the job: a page is read in one piece.
select * from node_list where job_id = ? and number >= ? and number < ? order by number;

-- name: node_briefs
-- Enough of an output to tell what kind of value it is.
select number, status, completed_at, substr(output, 1, 32), meta, progress from node_list
 where job_id = ? and number in (select value from json_each(?));

-- name: count_iterations
-- The status comes before the output in a row: large outputs are not read.
select status, count(*) from iterations where job_id = ? and number = ? and generation = ? group by status;

-- name: gaps_of_loop
-- Where indexes are missing between two rows, or before the first, or after the last.
with found as (
    select :after as "index"
    union all
    select "index" from iterations
     where job_id = :job_id and number = :number and generation = :generation
       and "index" > :after and "index" < :begun
    union all
    select :begun
)
select "index" + 1, following
  from (select "index", lead("index") over (order by "index") as following from found)
 where following > "index" + 1 order by "index" limit :limit;
