"""Petastorm's batch reader, two threads; row groups cut into batches, or its own ``tf.data.Dataset`` rebatched, whichever is quicker."""

import numpy as np
from petastorm import make_batch_reader

FORMAT = "Parquet"
VERSIONS = ["petastorm", "pyarrow"]


def arrays(job):
    def batches():
        with opened(job) as reader:
            for group in reader:
                columns = {name: filled(values) for name, values in group._asdict().items()}
                for start in range(0, len(columns["id"]), job.made.batch):
                    yield {name: values[start : start + job.made.batch] for name, values in columns.items()}

    return batches


def tensors(job):
    import tensorflow as tf
    from petastorm.tf_utils import make_petastorm_dataset
    from tensors import generated, untuned

    if job.made.kind == "binary":
        return generated(arrays(job), job.made)

    def dense(group):
        columns = group._asdict()
        return {name: tf.where(tf.math.is_nan(values), 0.0, values) if values.dtype.is_floating else values for name, values in columns.items()}

    return lambda: untuned(make_petastorm_dataset(opened(job)).map(dense).rebatch(job.made.batch).prefetch(2))


def opened(job):
    return make_batch_reader(job.parquet.as_uri(), workers_count=2, shuffle_row_groups=False)


def filled(values):
    """Numbers with nulls come as NaN, fixed-size binary as objects."""
    if values.dtype == object and isinstance(values[0], bytes):
        return np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
    return np.nan_to_num(values, nan=0) if values.dtype.kind == "f" else values
