"""LitData over its own chunks on this machine, its DataLoader of two workers."""

import shutil

from litdata import StreamingDataLoader, StreamingDataset
from litdata.streaming.cache import Cache

from rows import examples

FORMAT = "LitData"
VERSIONS = ["litdata"]


def arrays(job):
    if not job.converted.exists():
        unready = job.converted.with_suffix(".unready")
        shutil.rmtree(unready, ignore_errors=True)
        unready.mkdir(parents=True)
        cache = Cache(str(unready), chunk_bytes="64MB")
        for index, row in enumerate(examples(job)):
            cache[index] = row
        cache.done()
        cache.merge()
        unready.rename(job.converted)

    def batches():
        dataset = StreamingDataset(str(job.converted), shuffle=False)
        return StreamingDataLoader(dataset, batch_size=job.made.batch, num_workers=2)

    return batches
