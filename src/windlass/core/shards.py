"""Where a job lives: the shard that its id falls on, the same in every process."""

from zlib import crc32


def shard_of(job_id: str, shards: int) -> int:
    """The shard of a job among so many."""
    return crc32(job_id.encode()) % shards if shards > 1 else 0
