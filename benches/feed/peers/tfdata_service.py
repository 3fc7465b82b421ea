"""``tf.data`` service: two workers in a process of their own parse TFRecord files and send batches."""

import subprocess
import sys

import records
import tensorflow as tf
from tensors import untuned

FORMAT = "TFRecord"
VERSIONS = []
SERVERS = """
import sys
import tensorflow as tf

service = tf.data.experimental.service
dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
workers = [service.WorkerServer(service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1])) for _ in range(2)]
print(dispatcher.target, flush=True)
sys.stdin.read()
"""


def tensors(job):
    # Of the same rows as the files of the other tool that reads them.
    directory = job.converted.with_name(job.converted.name.replace("tfdata_service", "tfrecord"))
    records.convert(job, directory)
    servers = subprocess.Popen([sys.executable, "-c", SERVERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    address = servers.stdout.readline().strip()
    mode = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    distributed = tf.data.experimental.service.distribute(processing_mode=mode, service=address)
    dataset = untuned(records.dataset(job, directory).apply(distributed))
    return lambda: dataset
