-- Ownership of shards.

-- name: lease_release
update shards set owner = null, expires_at = null where shard = :shard and epoch = :epoch;

-- name: write_probe
-- Fails when the database accepts no writes, for example on a full disk, although reads succeed.
insert into write_probes (id, probed_at) values (1, :now) on conflict (id) do update set probed_at = excluded.probed_at;

-- name: engine_delete
delete from engines where owner = :owner;

-- name: shard_count_put
-- The first process decides; the others must have the same number.
insert into deployment (id, shard_count) values (1, :count) on conflict (id) do nothing;

-- name: shard_count_get
select shard_count from deployment;
