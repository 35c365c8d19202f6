-- What health checks write, to know whether the database accepts writes.
create table write_probes (
    id integer not null primary key check (id = 1),
    probed_at integer not null
) strict;
