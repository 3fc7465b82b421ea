"""TFRecord files through ``tf.data``, in file order."""

import records

from tensors import warm

FORMAT = "TFRecord"
VERSIONS = ["tensorflow-cpu"]


def prepare(job):
    records.convert(job, job.converted)
    warm()
    dataset = records.dataset(job, job.converted)
    return lambda: dataset
