-- Aliases are deleted with their workflow since this version.
delete from aliases where workflow_id not in (select workflow_id from workflows where deleted_at is null);
