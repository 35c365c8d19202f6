-- What several engines on one database need: leases that end by themselves, and who lives.

-- Null: held until it is given back or taken.
alter table shards add column expires_at integer;

create table engines (
    owner      text not null primary key,
    expires_at integer not null
) strict, without rowid;
