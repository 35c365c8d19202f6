-- All writes run on one thread, so a query and the change that depends on it need no lock.

-- name: lease_get
select epoch, owner, expires_at from shards where shard = :shard;

-- name: lease_put
insert into shards (shard, owner, epoch, expires_at) values (:shard, :owner, 1, :expires_at)
    on conflict (shard) do update
   set owner = excluded.owner, epoch = epoch + 1, expires_at = excluded.expires_at
returning epoch;

-- name: lease_list
select shard, owner, epoch, expires_at from shards order by shard;

-- name: lease_renew
-- The epoch stays; only a takeover raises it.
update shards set expires_at = :expires_at where shard = :shard and epoch = :epoch and owner = :owner
returning shard;

-- name: engine_put
insert or replace into engines (owner, expires_at, worker_timeout_seconds)
values (:owner, :expires_at, :worker_timeout_seconds);

-- name: engine_delete_expired
delete from engines where expires_at <= :now;

-- name: engine_list
select owner, worker_timeout_seconds from engines where expires_at > :now order by owner;
