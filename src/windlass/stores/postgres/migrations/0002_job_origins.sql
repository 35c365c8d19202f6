-- What started a job. Jobs of earlier versions count as submitted.
alter table jobs
    add column origin        text not null default 'submit',
    add column parent_run_id text collate "C",
    add column parent_job_id text collate "C",
    add column depth         integer not null default 0;

create index jobs_of_parent on jobs (parent_job_id, created_at, job_id) where parent_job_id is not null;
