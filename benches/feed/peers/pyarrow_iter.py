"""pyarrow's Parquet reader, a file after the other, numpy arrays in file order."""

import itertools

import pyarrow.parquet as pq

from arrow import dense

FORMAT = "Parquet"
VERSIONS = ["pyarrow"]


def arrays(job):
    files = map(pq.ParquetFile, job.files)
    return lambda: map(dense, itertools.chain.from_iterable(file.iter_batches(batch_size=job.made.batch) for file in files))
