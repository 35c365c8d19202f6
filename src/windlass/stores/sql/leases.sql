-- Ownership of shards.

-- name: lease_release
update shards set owner = null, expires_at = null where shard = :shard and epoch = :epoch;

-- name: write_probe
-- Fails when the database accepts no writes, for example on a full disk, although reads succeed.
insert into write_probes (id, probed_at) values (1, :now) on conflict (id) do update set probed_at = excluded.probed_at;

-- name: engine_delete
delete from engines where owner = :owner;

-- name: deployment_put
-- The first process decides; the others join it.
insert into deployment (id, installation_id, shard_count) values (1, :installation_id, :shard_count)
    on conflict (id) do nothing;

-- name: deployment_get
select installation_id, shard_count from deployment;
