-- The round of the job that a request is about, so that a repeated one does not change a later round.
alter table requests add column round integer not null default 0;
