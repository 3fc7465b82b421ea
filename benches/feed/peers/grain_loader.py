"""grain: Parquet rows, batched, two worker processes."""

import grain
import numpy as np
import sets

FORMAT = "Parquet"
VERSIONS = ["grain", "pyarrow"]


def arrays(job):
    def row(columns):
        """Fixed-size binary comes as bytes."""
        if isinstance(columns.get("image"), bytes):
            columns["image"] = np.frombuffer(columns["image"], np.uint8)
        return columns

    def filled(batch):
        """Numbers with nulls come as NaN."""
        return {name: np.nan_to_num(values, nan=0) if values.dtype.kind == "f" else values for name, values in batch.items()}

    def batches():
        files = grain.MapDataset.source(job.files).map(grain.experimental.ParquetIterDataset)
        rows = grain.experimental.InterleaveIterDataset(files, cycle_length=sets.FILES)
        batched = rows.map(row).batch(job.made.batch).map(filled)
        return iter(batched.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))

    return batches
