-- name: commit
-- Returns the shards whose epoch is not the caller's, with their epoch; when there are any, nothing was written.
select stale_shard, newest_epoch from windlass_commit(
    of_shards => :shards::integer[], as_epochs => :epochs::bigint[], node_values => :nodes::text[],
    iteration_values => :iterations::text[], call_output_values => :call_outputs::text[],
    chunk_values => :chunks::text[], event_page_values => :event_pages::text[],
    job_change_values => :job_changes::text[], request_ids => :request_ids::text, result_ids => :result_ids::text,
    result_verdicts => :result_verdicts::text, runs => :runs::jsonb
);
