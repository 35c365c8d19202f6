-- The jobs of one workflow, newest first: lists, recent runs and statistics of workflows ask for them.
create index jobs_of_workflow on jobs (workflow_id, created_at, job_id);
