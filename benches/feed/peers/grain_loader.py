"""grain: Parquet rows, batched, two worker processes."""

import grain
import numpy as np
import sets

FORMAT = "Parquet"
VERSIONS = ["grain", "pyarrow"]


def prepare(job):
    kinds = {"id": np.int64} | dict.fromkeys(sets.NUMBERS, np.float32) | dict.fromkeys(sets.CODES, np.int32)

    def row(columns):
        """Values come as Python's."""
        return {name: value_of(name, value) for name, value in columns.items()}

    def value_of(name, value):
        if name == "image":
            return np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.asarray(value, np.uint8)
        if isinstance(value, str):
            return value
        return kinds[name](0 if value is None else value)

    def batches():
        files = grain.MapDataset.source(job.files).map(grain.experimental.ParquetIterDataset)
        rows = grain.experimental.InterleaveIterDataset(files, cycle_length=sets.FILES)
        return iter(rows.map(row).batch(job.made.batch).mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))

    return batches
