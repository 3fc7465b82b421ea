"""TFRecord files through ``tf.data``, in file order."""

import records
from tensors import untuned

FORMAT = "TFRecord"
VERSIONS = []


def tensors(job):
    records.convert(job, job.converted)
    dataset = untuned(records.dataset(job, job.converted))
    return lambda: dataset
