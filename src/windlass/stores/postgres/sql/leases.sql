-- Instants are the database's, because the clocks of engines may differ.

-- name: lease_take
select new_epoch, was_abandoned from windlass_take_lease(:shard, :owner, :ttl_seconds);

-- name: lease_epoch
select place, epoch from unnest(:shards::integer[]) with ordinality as wanted (of_shard, place)
  join shards on shard = of_shard;

-- name: lease_list
select shard, owner, epoch, coalesce(owner is not null and expires_at <= now(), false),
       (extract(epoch from expires_at) * 1000000)::bigint
  from shards order by shard;

-- name: lease_renew
-- The epoch stays; only a takeover raises it, and a renewal after a takeover finds another epoch. Rows are locked in
-- the order of their shards, and no transaction outlives the statement: an engine that is paused here blocks no other.
with alive as (
    insert into engines (owner, expires_at, worker_timeout_seconds)
    values (:owner, now() + make_interval(secs => :ttl_seconds), :worker_timeout_seconds)
        on conflict (owner) do update
       set expires_at = excluded.expires_at, worker_timeout_seconds = excluded.worker_timeout_seconds
), dead as (
    delete from engines where owner in (
        select owner from engines where expires_at <= now() and owner <> :owner for update skip locked
    )
), own as (
    select shard, epoch from shards where owner = :owner and (shard, epoch) in (
        select * from unnest(:shards::integer[], :epochs::bigint[])
    ) order by shard for update
)
update shards set expires_at = now() + make_interval(secs => :ttl_seconds)
  from own where shards.shard = own.shard and shards.epoch = own.epoch
returning shards.shard, shards.epoch;

-- name: engine_list
select owner, worker_timeout_seconds from engines where expires_at > now() order by owner;
