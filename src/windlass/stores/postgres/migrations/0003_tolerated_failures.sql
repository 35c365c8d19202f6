-- Failures that a job tolerates: failed iterations of completed loops, and failed nodes that are allowed to fail.
alter table jobs add column failures integer not null default 0;

-- Late results that events record, as a JSON array of [node, index or -1, attempt], so that a repeated one is not
-- recorded again.
alter table jobs add column ignored text;

-- When the first attempt started, if the last one started later: durations of nodes cover all attempts.
alter table nodes add column first_started_at bigint;
alter table iterations add column first_started_at bigint;
