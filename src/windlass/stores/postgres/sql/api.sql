-- What the API asks for, beyond what the engine does.

-- name: workflows_by_id
select workflow_id, version, definition, digest, created_at from workflows as newest
 where workflow_id > $1 and deleted_at is null
   and version = (select max(version) from workflows where workflow_id = newest.workflow_id)
 order by workflow_id limit $2;

-- name: versions_of_workflow
select workflow_id, version, definition, digest, created_at from workflows
 where workflow_id = $1 order by version desc;

-- name: unfinished_of_workflow
select count(*) from jobs where workflow_id = $1 and not is_ended;

-- name: delete_workflow
-- All versions: a workflow that is deployed again begins with a new one, and only that one is live.
update workflows set deleted_at = $1 where workflow_id = $2 and deleted_at is null returning version;

-- name: is_deleted
select true from workflows as newest where workflow_id = $1 and deleted_at is not null
   and version = (select max(version) from workflows where workflow_id = newest.workflow_id);

-- name: aliases_of_workflow
select alias, targets from aliases where workflow_id = $1 order by alias;

-- name: put_alias
insert into aliases (workflow_id, alias, targets, updated_at) values ($1, $2, $3, $4)
    on conflict (workflow_id, alias) do update set targets = excluded.targets, updated_at = excluded.updated_at;

-- name: delete_alias
delete from aliases where workflow_id = $1 and alias = $2;

-- name: count_versions
select count(*) from workflows where workflow_id = $1 and version = any ($2::integer[]);

-- name: insert_result
insert into results (task_id, job_id, shard, message, created_at) values ($1, $2, $3, $4, $5)
    on conflict (task_id) do nothing returning task_id;

-- name: waiting_results
select place, found.*
  from unnest($1::integer[], $2::integer[]) with ordinality as asked (of_shard, at_most, place)
 cross join lateral (
    select task_id, shard, message, created_at from results
     where shard = of_shard and not applied order by created_at, task_id limit at_most
) as found order by place, created_at, task_id;

-- name: insert_logs
select windlass_append_logs($1, $2, $3, $4, $5, $6, $7);

-- name: logs_of_job
select job_id, node_id, "index", attempt, at, level, message, log_id from logs
 where job_id = $1 and log_id > $4
   and ($2::text is null or node_id = $2)
   and ($3::integer is null or attempt = $3)
   and ($6::integer is null or "index" = $6)
 order by log_id limit $5;

-- name: nodes_by_number
select * from node_list where job_id = $1 and number >= $2 and number < $3 order by number;

-- name: node_briefs
-- Enough of an output to tell what kind of value it is.
select number, status, completed_at, substr(output, 1, 32), meta, progress from node_list
 where job_id = $1 and number = any ($2::integer[]);

-- name: count_iterations
select status, count(*) from iterations where job_id = $1 and number = $2 and generation = $3 group by status;

-- name: gaps_of_loop
-- Where indexes are missing between two rows, or before the first, or after the last.
with found as (
    select $4::integer as "index"
    union all
    select "index" from iterations
     where job_id = $1 and number = $2 and generation = $3 and "index" > $4 and "index" < $5
    union all
    select $5::integer
)
select "index" + 1, following
  from (select "index", lead("index") over (order by "index") as following from found) as pairs
 where following > "index" + 1 order by "index" limit $6;
