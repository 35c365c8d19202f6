-- Outputs too large for rows and messages, where no other place for them is named.

create table artifacts (
    job_id text collate "C" not null,
    digest text collate "C" not null,
    body   bytea not null,
    primary key (job_id, digest)
);

-- Compressing what is mostly read once costs more than it saves.
alter table artifacts alter column body set storage external;
