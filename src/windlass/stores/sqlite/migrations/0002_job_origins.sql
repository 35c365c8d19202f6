-- What started a job. Jobs of earlier versions count as submitted.
alter table jobs add column origin text not null default 'submit';
alter table jobs add column parent_run_id text;
alter table jobs add column parent_job_id text;
alter table jobs add column depth integer not null default 0;

create index jobs_of_parent on jobs (parent_job_id, created_at, job_id) where parent_job_id is not null;
