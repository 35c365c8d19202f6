"""The no-op tasks that the Celery side of the comparison runs."""

import os

from celery import Celery

app = Celery("peer", broker=os.environ["PEER_REDIS"], backend=os.environ["PEER_REDIS"])
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=16,
    broker_connection_retry_on_startup=True,
    result_expires=3600,
)


@app.task
def echo(value: object = None) -> object:
    """Give the argument back."""
    return value


@app.task
def gather(values: list[object]) -> int:
    """The end of a fan."""
    return len(values)
