-- Workflows and aliases.

-- name: workflow_newest
-- Deleted or not.
select {workflow_columns}, deleted_at is not null from workflows
 where workflow_id = :workflow_id order by version desc limit 1;

-- name: workflow_live
select {workflow_columns} from workflows
 where workflow_id = :workflow_id and deleted_at is null order by version desc limit 1;

-- name: workflow_version
select {workflow_columns} from workflows where workflow_id = :workflow_id and version = :version;

-- name: workflow_insert
insert into workflows ({workflow_columns})
values (:workflow_id, :version, :definition, :digest, :created_at);

-- name: workflow_list
-- The subquery is one search of the primary key per workflow.
select {workflow_columns} from workflows as newest
 where workflow_id > :after and deleted_at is null
   and version = (select max(version) from workflows where workflow_id = newest.workflow_id)
 order by workflow_id limit :limit;

-- name: workflow_versions
select {workflow_columns} from workflows where workflow_id = :workflow_id order by version desc;

-- name: workflow_version_count
select count(*) from workflows where workflow_id = :workflow_id and version {in_integers :versions};

-- name: workflow_unfinished_count
select count(*) from jobs where workflow_id = :workflow_id and not is_ended;

-- name: workflow_delete
-- All versions: when the workflow is deployed again it gets a new version, and only that one is live.
update workflows set deleted_at = :now where workflow_id = :workflow_id and deleted_at is null returning version;

-- name: alias_list
select alias, targets from aliases where workflow_id = :workflow_id order by alias;

-- name: alias_put
insert into aliases (workflow_id, alias, targets, updated_at) values (:workflow_id, :alias, :targets, :now)
    on conflict (workflow_id, alias) do update set targets = excluded.targets, updated_at = excluded.updated_at;

-- name: alias_delete_all
delete from aliases where workflow_id = :workflow_id;

-- name: alias_delete
delete from aliases where workflow_id = :workflow_id and alias = :alias;
