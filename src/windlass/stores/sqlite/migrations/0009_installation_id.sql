-- Keeps the queues of deployments on one broker server apart.
alter table deployment add column installation_id text not null default '';
update deployment set installation_id = lower(hex(randomblob(8)));
