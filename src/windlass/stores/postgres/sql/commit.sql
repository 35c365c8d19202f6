-- name: commit
-- Returns the shards whose epoch is not the caller's, with their epoch; when there are any, nothing was written.
select stale_shard, newest_epoch from windlass_commit(:shards::integer[], :epochs::bigint[], :document::jsonb);
