-- Views. The migrator runs this file again whenever its text changes, so a view is changed here and nowhere else.

drop view if exists run_event_list;
drop view if exists event_list;
drop view if exists event_pages;
drop view if exists job_created_pages;
drop view if exists node_list;

-- All nodes that left pending, with or without a row of their own.
create view node_list as
select {node_columns} from nodes
union all
select {in_flight_columns}
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

-- The same for the events of runs, and of schedules, whose run_id is empty.
create view run_event_list as
select run_events.workflow_id,
       run_events.run_id,
       event.value ->> 0                                                as seq,
       event.value ->> 1                                                as event_type,
       datetime((event.value ->> 4) / 1000000.0, 'unixepoch', 'subsec') as at,
       event.value -> 5                                                 as data
  from run_events, json_each(run_events.body) as event;
