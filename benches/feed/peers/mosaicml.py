"""MosaicML Streaming over MDS files on this machine, a DataLoader of two workers."""

import shutil

import streaming
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader

import sets
from rows import examples

FORMAT = "MDS"
VERSIONS = ["mosaicml-streaming"]


def arrays(job):
    if not job.converted.exists():
        unready = job.converted.with_suffix(".unready")
        shutil.rmtree(unready, ignore_errors=True)
        with MDSWriter(out=str(unready), columns=columns(job.made)) as writer:
            for row in examples(job):
                writer.write(row)
        unready.rename(job.converted)
    streaming.base.util.clean_stale_shared_memory()

    def batches():
        dataset = StreamingDataset(local=str(job.converted), batch_size=job.made.batch, shuffle=False)
        return DataLoader(dataset, batch_size=job.made.batch, num_workers=2)

    return batches


def columns(made):
    if made.images:
        return {"id": "int64", "image": f"ndarray:uint8:{made.length}"}
    code = {"codes": "int32", "strings": "str"}[made.kind]
    return {"id": "int64"} | dict.fromkeys(sets.NUMBERS, "float32") | dict.fromkeys(sets.CODES, code)
