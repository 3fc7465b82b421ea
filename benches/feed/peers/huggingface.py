"""Hugging Face datasets, streaming, batches of Arrow: its format of numpy makes bytes int64."""

import datasets

from arrow import dense

FORMAT = "Parquet"
VERSIONS = ["datasets", "pyarrow"]


def arrays(job):
    stream = datasets.load_dataset("parquet", data_files=job.files, split="train", streaming=True).with_format("arrow")
    return lambda: map(dense, stream.iter(batch_size=job.made.batch))
