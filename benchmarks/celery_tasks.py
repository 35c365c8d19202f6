"""The no-op tasks of the Celery benchmark."""

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
    """Return the argument."""
    return value


@app.task
def count(values: list[object]) -> int:
    """Return the number of values, at the end of a fan."""
    return len(values)
