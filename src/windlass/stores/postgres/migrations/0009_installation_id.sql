-- Keeps the queues of deployments on one broker server apart.
alter table deployment add column installation_id text not null collate "C" default '';
update deployment set installation_id = substr(md5(random()::text || clock_timestamp()::text), 1, 16);
