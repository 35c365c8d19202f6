-- Who owns which shard. Instants are the database's: the clocks of engines may differ.

-- name: take_lease
select new_epoch, was_abandoned from windlass_take_lease($1, $2, $3);

-- name: release_lease
update shards set owner = null, expires_at = null where shard = $1 and epoch = $2;

-- name: lease
select place, epoch from unnest($1::integer[]) with ordinality as asked (of_shard, place)
  join shards on shard = of_shard;

-- name: leases
select shard, owner, epoch, coalesce(owner is not null and expires_at <= now(), false),
       (extract(epoch from expires_at) * 1000000)::bigint
  from shards order by shard;

-- name: beat
-- The epoch stays; only a takeover raises it, and a renewal that comes after one finds another epoch. Rows in the order
-- of their shards, and no transaction that outlives the statement: an engine that is stopped here holds up nobody.
with alive as (
    insert into engines (owner, expires_at) values ($1, now() + make_interval(secs => $4))
        on conflict (owner) do update set expires_at = excluded.expires_at
), dead as (
    delete from engines where owner in (
        select owner from engines where expires_at <= now() and owner <> $1 for update skip locked
    )
), mine as (
    select shard, epoch from shards where owner = $1 and (shard, epoch) in (
        select * from unnest($2::integer[], $3::bigint[])
    ) order by shard for update
)
update shards set expires_at = now() + make_interval(secs => $4)
  from mine where shards.shard = mine.shard and shards.epoch = mine.epoch;

-- name: engines
select owner from engines where expires_at > now() order by owner;

-- name: leave
delete from engines where owner = $1;
