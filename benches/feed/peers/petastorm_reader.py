"""Petastorm's batch reader, two threads; row groups cut into batches."""

import numpy as np
from petastorm import make_batch_reader

FORMAT = "Parquet"
VERSIONS = ["petastorm", "pyarrow"]


def prepare(job):
    def batches():
        with make_batch_reader(job.parquet.as_uri(), workers_count=2, shuffle_row_groups=False) as reader:
            for group in reader:
                columns = {name: filled(values) for name, values in group._asdict().items()}
                for start in range(0, len(columns["id"]), job.made.batch):
                    yield {name: values[start : start + job.made.batch] for name, values in columns.items()}

    return batches


def filled(values):
    """Numbers with nulls come as NaN, fixed-size binary as objects."""
    if values.dtype == object and isinstance(values[0], bytes):
        return np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
    return np.nan_to_num(values, nan=0) if values.dtype.kind == "f" else values
