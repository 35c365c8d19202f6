-- Who owns which shard. Every statement runs on the one thread that writes, so a look and the change that follows from
-- it are one step.

-- name: put_lease
insert into shards (shard, owner, epoch, expires_at) values (?, ?, 1, ?)
    on conflict (shard) do update
   set owner = excluded.owner, epoch = epoch + 1, expires_at = excluded.expires_at
returning epoch;

-- name: release_lease
update shards set owner = null, expires_at = null where shard = ? and epoch = ?;

-- name: lease
select epoch, owner, expires_at from shards where shard = ?;

-- name: leases
select shard, owner, epoch, expires_at from shards order by shard;

-- name: renew_lease
-- The epoch stays; only a takeover raises it.
update shards set expires_at = ? where shard = ? and epoch = ? and owner = ?;

-- name: say_alive
insert or replace into engines (owner, expires_at) values (?, ?);

-- name: forget_dead
delete from engines where expires_at <= ?;

-- name: engines
select owner from engines order by owner;

-- name: leave
delete from engines where owner = ?;
