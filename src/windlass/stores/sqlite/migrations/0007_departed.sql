-- Nodes that are out with a worker for the first time have no row. The newest page of their job's events names them
-- all, as a JSON array of [number, node_id, first_seq, dispatched_at].
alter table events add column departed text;

-- The nodes that left pending, with a row or without: what is to be shown of a job.
create view node_list as
select job_id, node_id, status, attempt, attempts_before, losses, first_seq, dispatched_at, started_at, completed_at,
       due_at, worker_id, output, error, meta, number, progress
  from nodes
union all
select jobs.job_id, one.value ->> 1, 'dispatched', 1, 0, 0, one.value ->> 2, one.value ->> 3, null, null,
       null, null, null, null, null, one.value ->> 0, null
  from jobs,
       json_each((select departed from events
                   where events.job_id = jobs.job_id order by first_seq desc limit 1)) as one;
