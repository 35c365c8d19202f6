-- Lists of failed and of cancelled jobs do not search the history for them.
create index jobs_unsuccessful on jobs (status, created_at, job_id) where status in ('failed', 'cancelled');
create index jobs_unsuccessful_of_workflow on jobs (workflow_id, created_at, job_id)
    where status in ('failed', 'cancelled');
