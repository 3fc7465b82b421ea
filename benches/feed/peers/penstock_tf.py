"""Penstock as a trainer has it: a gateway and a sidecar of its own, shuffled rows, ``tf.data``."""

import penstock
import sets

FORMAT = "Parquet"
VERSIONS = ["penstock"]


def arrays(job):
    feed = opened(job)
    return lambda: feed


def tensors(job):
    dataset = opened(job).tf()
    return lambda: dataset


def opened(job):
    nulls = {} if job.made.images else dict.fromkeys(sets.NUMBERS, 0)
    return penstock.feed(job.parquet, batch_size=job.made.batch, shuffle="rows", seed=1, nulls=nulls, remainder="keep")
