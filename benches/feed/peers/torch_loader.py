"""PyTorch's DataLoader: two workers read Parquet files with pyarrow, row by row, and collate."""

import pyarrow  # noqa: F401  before torch, whose libraries are Debian's
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from rows import rows

FORMAT = "Parquet"
VERSIONS = ["torch", "pyarrow"]


class Rows(IterableDataset):
    def __init__(self, job):
        self.job = job

    def __iter__(self):
        worker = get_worker_info()
        for file in self.job.files[worker.id :: worker.num_workers]:
            yield from rows(file, self.job.made.batch)


def arrays(job):
    torch.set_num_threads(1)
    return lambda: DataLoader(Rows(job), batch_size=job.made.batch, num_workers=2)
