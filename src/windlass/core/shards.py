"""The shard of a job, decided once when the job is created and stored in its row.

Runs of one workflow are decided on one shard, together with their jobs.
"""

from zlib import crc32

from windlass.core.ids import JobId, WorkflowId


def shard_of(key: JobId | WorkflowId, shards: int) -> int:
    """Return the shard of a key: a job's id, or the workflow whose runs decide about the job (`JobSpec.shard_key`)."""
    if shards == 1:
        return 0
    return crc32(key.encode()) % shards
