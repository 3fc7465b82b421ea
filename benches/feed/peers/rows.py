"""Rows of a Parquet file as dicts of numpy values; not a tool by itself."""

import numpy as np
import pyarrow.parquet as pq

from arrow import dense


def rows(file, batch_rows):
    """One dict a row; of a batch that is read at once."""
    for batch in pq.ParquetFile(file).iter_batches(batch_size=batch_rows):
        columns = dense(batch)
        names, values = list(columns), list(columns.values())
        for row in zip(*values):
            yield dict(zip(names, row))


def examples(job):
    """The rows that a format of its own is given, images as arrays."""
    left = job.made.converted
    for file in job.files:
        for row in rows(file, 1024):
            if left == 0:
                return
            left -= 1
            yield {name: plain(value) for name, value in row.items()}


def plain(value):
    """Numbers as Python's: formats know these."""
    return value.item() if isinstance(value, np.generic) else value
