-- How many heartbeats there were: a run counts those since its start.
alter table run_heartbeats add column total bigint not null default 0;
