-- Ownership of shards.

-- name: lease_release
update shards set owner = null, expires_at = null where shard = :shard and epoch = :epoch;

-- name: engine_delete
delete from engines where owner = :owner;
