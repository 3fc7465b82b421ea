"""TFRecord files through ``tf.data``, in file order."""

import records

FORMAT = "TFRecord"
VERSIONS = ["tensorflow-cpu"]


def prepare(job):
    records.convert(job, job.converted)
    return lambda: records.dataset(job, job.converted)
