"""Where a job lives: the shard that its id falls on, the same in every process.

The job of a run has the key of its workflow in its id, and so lives where all runs of that workflow are decided.
"""

from zlib import crc32

# An ordinary id has so many characters; that of a run's job goes on with a dash and the key.
ID_CHARS = 24


def is_of_run(job_id: str) -> bool:
    """Whether the job is that of a run."""
    return job_id[ID_CHARS : ID_CHARS + 1] == "-"


def shard_of(job_id: str, shards: int) -> int:
    """The shard of a job among so many."""
    if shards == 1:
        return 0
    key = job_id[ID_CHARS + 1 :] if is_of_run(job_id) else job_id
    return crc32(key.encode()) % shards


def shard_of_workflow(workflow_id: str, shards: int) -> int:
    """The shard on which the runs of a workflow are decided."""
    return crc32(run_key(workflow_id).encode()) % shards if shards > 1 else 0


def run_key(workflow_id: str) -> str:
    """What the ids of a workflow's jobs end with when they are runs."""
    return f"{crc32(workflow_id.encode()):08x}"
