-- name: commit
-- Returns the shards whose epoch is not the caller's, with their epoch; when there are any, nothing was written.
select stale_shard, newest_epoch from windlass_commit(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48,
    $49, $50, $51, $52, $53, $54, $55, $56, $57, $58, $59, $60, $61, $62, $63
);

-- name: commit_with_runs
-- windlass_put_runs must be executed first, because the commit may be about jobs that it inserts; passing its result on
-- guarantees the order.
select stale_shard, newest_epoch
  from (select windlass_put_runs($1, $2, $64) as is_put) as runs,
       lateral windlass_commit(
    case when is_put then $1 end,
    $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48,
    $49, $50, $51, $52, $53, $54, $55, $56, $57, $58, $59, $60, $61, $62, $63
);
