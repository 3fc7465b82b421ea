"""Penstock as a trainer has it: a gateway and a sidecar of its own, shuffled rows, ``tf.data``."""

import penstock
import sets

from tensors import warm

FORMAT = "Parquet"
VERSIONS = ["tensorflow-cpu"]


def prepare(job):
    nulls = {} if job.made.images else dict.fromkeys(sets.NUMBERS, 0)
    feed = penstock.feed(job.parquet, batch_size=job.made.batch, shuffle="rows", seed=1, nulls=nulls, remainder="keep")
    warm()
    dataset = feed.tf()
    return lambda: dataset
