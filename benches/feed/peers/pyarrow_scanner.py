"""pyarrow's dataset scanner, numpy arrays in file order."""

import pyarrow.dataset as ds

from arrow import dense

FORMAT = "Parquet"
VERSIONS = ["pyarrow"]


def arrays(job):
    dataset = ds.dataset(job.parquet, format="parquet")
    return lambda: map(dense, dataset.to_batches(batch_size=job.made.batch))
