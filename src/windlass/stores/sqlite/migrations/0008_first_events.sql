-- The first event of a job, that it was made, is its row: no page repeats it. Earlier versions stored one.
create view first_pages as
select job_id, 1 as first_seq, 1 as last_seq,
       json_array(json_array(1, 'job_created', null, null, created_at,
                             json_object('workflow_id', workflow_id, 'version', version), null, null, null)) as body
  from jobs
 where not exists (select 1 from events where events.job_id = jobs.job_id and first_seq = 1);

create view event_pages as
select job_id, first_seq, last_seq, body from events
union all
select job_id, first_seq, last_seq, body from first_pages;

drop view event_list;

create view event_list as
select event_pages.job_id,
       event.value ->> 0                                 as seq,
       event.value ->> 1                                 as event_type,
       event.value ->> 2                                 as node_id,
       event.value ->> 3                                 as "index",
       datetime((event.value ->> 4) / 1000000.0, 'unixepoch', 'subsec') as at,
       event.value -> 5                                  as data,
       event.value -> 6                                  as meta
  from event_pages, json_each(event_pages.body) as event;
