-- Views. The migrator runs this file again whenever its text changes, so a view is changed here and nowhere else.

drop view if exists event_list;
drop view if exists event_pages;
drop view if exists job_created_pages;
drop view if exists node_list;

-- All nodes that left pending, with or without a row of their own.
create view node_list as
select job_id, node_id, status, attempt, attempts_before, losses, first_seq, dispatched_at, started_at, completed_at,
       due_at, worker_id, output, error, meta, number, progress
  from nodes
union all
select jobs.job_id, entry.value ->> 1, 'dispatched', 1, 0, 0, entry.value ->> 2, entry.value ->> 3, null, null,
       null, null, null, null, null, entry.value ->> 0, null
  from jobs,
       json_each((select in_flight from events
                   where events.job_id = jobs.job_id order by first_seq desc limit 1)) as entry;

-- The page of each job's first event, job_created, which is not stored.
create view job_created_pages as
select job_id, 1 as first_seq, 1 as last_seq,
       json_array(json_array(1, 'job_created', null, null, created_at,
                             json_object('workflow_id', workflow_id, 'version', version), null, null, null)) as body
  from jobs;

create view event_pages as
select job_id, first_seq, last_seq, body from events
union all
select job_id, first_seq, last_seq, body from job_created_pages;

-- One row per event, for ad hoc queries.
create view event_list as
select event_pages.job_id,
       event.value ->> 0                                                as seq,
       event.value ->> 1                                                as event_type,
       event.value ->> 2                                                as node_id,
       event.value ->> 3                                                as "index",
       datetime((event.value ->> 4) / 1000000.0, 'unixepoch', 'subsec') as at,
       event.value -> 5                                                 as data,
       event.value -> 6                                                 as meta
  from event_pages, json_each(event_pages.body) as event;
